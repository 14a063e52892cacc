"""The tags of a cluster: instances, their roster, dead letters, windows of time, tenants."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from dragoman.ids import InstanceId, TenantId
from dragoman.redis_servers import FunctionLibrary, RedisPipeline

Answer: TypeAlias = list[Any]
"""What the header of a function says it answers."""

_FUNCTIONS = files("dragoman.live.cluster") / "functions"
_PARTS = ("opening", "instance", "roster", "dead_letters", "window", "tenant")
_LIBRARY = FunctionLibrary.of(
    "cluster", [(_FUNCTIONS / f"{part}.lua").read_text("utf-8") for part in _PARTS]
)

_DAY_MS = 24 * 3_600_000
_PRESENCE_KEPT_MS = _DAY_MS
"""Longer than a process may be paused and still come back to find out what became of it."""
_LETTERS_KEPT_MS = 30 * _DAY_MS
_SELF_TIMED = 0
"""For keys whose operations set their time to live themselves."""

_INBOX_KEY = 1
"""Where the inbox stands among an instance's keys."""

_pack = msgspec.msgpack.Encoder().encode


class KeyTag(msgspec.Struct, frozen=True):
    """Keys that live on one server, in the order that the functions know them by."""

    name: str
    keys: tuple[bytes, ...]
    least_ttl_ms: int
    """What is written stays at least this long."""


class Tags:
    """Sends operations to the tag that they are about."""

    def __init__(
        self, caller: RedisPipeline, key_prefix: str, time_shift_ms: Callable[[], int] | None = None
    ) -> None:
        """time_shift_ms is added to the server's time, for tests."""
        self._caller = caller
        self.key_prefix = key_prefix
        self._time_shift_ms = time_shift_ms
        self._roster = self._tag("instances", ("known",), _PRESENCE_KEPT_MS)
        self._dead_letters = self._tag(
            "dead_letters", ("letters", "order", "counts"), _LETTERS_KEPT_MS
        )

    def instance(self, instance_id: InstanceId) -> KeyTag:
        return self._tag(f"i:{_safe(instance_id)}", ("record", "inbox"), _PRESENCE_KEPT_MS)

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
        tag = self._tag(f"w:{_safe(key)}", ("window",), _SELF_TIMED)
        return self._ask(tag, name, arguments, ())

    def ask_tenant(self, tenant: TenantId, name: str, *arguments: Any) -> Future[Answer]:
        tag = self._tag(f"t:{_safe(tenant)}", ("session_blocks", "job_blocks"), _SELF_TIMED)
        return self._ask(tag, name, arguments, ())

    def _ask(
        self, tag: KeyTag, name: str, arguments: Sequence[Any], blobs: Sequence[bytes]
    ) -> Future[Answer]:
        shift_ms = self._time_shift_ms() if self._time_shift_ms is not None else 0
        # What is binary stays out of the packed terms: the functions never look into it.
        terms = _pack((shift_ms, tag.least_ttl_ms, arguments))
        return self._caller.ask(tag.name, name, _LIBRARY.call(name, tag.keys, (terms, *blobs)))

    def _tag(self, name: str, keys: Sequence[str], least_ttl_ms: int) -> KeyTag:
        tag = f"{self.key_prefix}:{{{name}}}"
        return KeyTag(tag, tuple(f"{tag}:{key}".encode() for key in keys), least_ttl_ms)


def _safe(name: str) -> str:
    """A name without braces, which would end the hash tag too early."""
    return quote(name, safe=":/@+ ")
