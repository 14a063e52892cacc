"""The tags of a cluster: instances, their roster, dead letters, windows of time, tenants."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import quote

from dragoman.ids import InstanceId, TenantId
from dragoman.redis_servers import KeyTag, Operations, RedisPipeline

Answer: TypeAlias = list[Any]
"""What an operation's Lua file says it answers."""

_LUA = files("dragoman.live.cluster") / "lua"

_INSTANCE = Operations.read(_LUA / "instance", ("record", "inbox"), ("instance",))
_ROSTER = Operations.read(_LUA / "roster", ("known",), ("roster",))
_DEAD_LETTERS = Operations.read(
    _LUA / "dead_letters", ("letters", "order", "counts"), ("dead_letters",)
)
_WINDOW = Operations.read(_LUA / "window", ("window",), ("window",))
_TENANT = Operations.read(_LUA / "tenant", ("session_blocks", "job_blocks"), ("tenant",))

_DAY_MS = 24 * 3_600_000
_PRESENCE_KEPT_MS = _DAY_MS
"""Longer than a process may be paused and still come back to find out what became of it."""
_LETTERS_KEPT_MS = 30 * _DAY_MS
_SELF_TIMED = 0
"""For keys whose operations set their time to live themselves."""

_INBOX_KEY = 1
"""Where the inbox stands among an instance's keys."""


class Tags:
    """Sends operations to the tag that they are about."""

    def __init__(
        self, caller: RedisPipeline, key_prefix: str, time_shift_ms: Callable[[], int] | None = None
    ) -> None:
        """time_shift_ms is added to the server's time, for tests."""
        self._caller = caller
        self.key_prefix = key_prefix
        self._time_shift_ms = time_shift_ms
        self._roster = KeyTag.of(_ROSTER, key_prefix, "instances", _PRESENCE_KEPT_MS)
        self._dead_letters = KeyTag.of(_DEAD_LETTERS, key_prefix, "dead_letters", _LETTERS_KEPT_MS)

    def instance(self, instance_id: InstanceId) -> KeyTag:
        return KeyTag.of(_INSTANCE, self.key_prefix, f"i:{_safe(instance_id)}", _PRESENCE_KEPT_MS)

    def inbox_key(self, instance_id: InstanceId) -> bytes:
        return self.instance(instance_id).keys[_INBOX_KEY]

    def ask_instance(
        self, instance_id: InstanceId, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        return self._ask(self.instance(instance_id), name, arguments, blobs)

    def ask_roster(self, name: str, *arguments: str) -> Future[Answer]:
        return self._ask(self._roster, name, arguments, ())

    def ask_dead_letters(
        self, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        return self._ask(self._dead_letters, name, arguments, blobs)

    def ask_window(self, key: str, name: str, *arguments: int) -> Future[Answer]:
        tag = KeyTag.of(_WINDOW, self.key_prefix, f"w:{_safe(key)}", _SELF_TIMED)
        return self._ask(tag, name, arguments, ())

    def ask_tenant(self, tenant: TenantId, name: str, *arguments: Any) -> Future[Answer]:
        tag = KeyTag.of(_TENANT, self.key_prefix, f"t:{_safe(tenant)}", _SELF_TIMED)
        return self._ask(tag, name, arguments, ())

    def _ask(
        self, tag: KeyTag, name: str, arguments: Sequence[Any], blobs: Sequence[bytes]
    ) -> Future[Answer]:
        shift_ms = self._time_shift_ms() if self._time_shift_ms is not None else 0
        call = tag.call(name, arguments, blobs, time_shift_ms=shift_ms)
        return self._caller.ask(tag.name, name, call)


def _safe(name: str) -> str:
    """A name without braces, which would end the hash tag too early."""
    return quote(name, safe=":/@+ ")
