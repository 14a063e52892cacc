"""A tenant's jobs, newest first: gathered, and written by tenant, instance and minute.

No key is touched by every job: a tenant's instances write lists of their own, several times a
second, each with a tag of its own. One small index a tenant says which lists there are.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator
from hashlib import blake2b
from struct import Struct

from dragoman.ids import InstanceId, JobId, TenantId
from dragoman.live.shared.redis.server import SHARD, Answer, FunctionServer, FunctionTag

_WRITE_SECONDS = 0.2
_MINUTE_MS = 60_000

_CREATED = Struct(">Q")
_LISTS_AT_ONCE = 16

_List = tuple[TenantId, InstanceId, int]
"""A tenant's jobs that one instance opened in one minute."""


class Recents:
    """What this process opened lately, and what every process wrote down."""

    def __init__(self, server: FunctionServer) -> None:
        self._server = server
        self._keep_ms = 0
        """How long a job is listed: at least as long as any is kept."""
        self._waiting: dict[_List, list[bytes]] = {}
        self._writing: dict[_List, list[bytes]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._indexed: set[_List] = set()
        self._stopped = False

    def add(
        self,
        tenant: TenantId,
        instance_id: InstanceId,
        created_ms: int,
        job_id: JobId,
        life_ms: int,
    ) -> None:
        """List a job that this instance has opened or taken over."""
        self._keep_ms = max(self._keep_ms, life_ms)
        entry = _CREATED.pack(created_ms) + job_id.encode()
        name = (tenant, instance_id, created_ms // _MINUTE_MS)
        self._waiting.setdefault(name, []).append(entry)
        if self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_SECONDS, self._write_soon)

    async def newest_first(
        self, tenant: TenantId, limit: int, before: tuple[int, JobId] | None
    ) -> AsyncIterator[list[JobId]]:
        """Names, some at a time, until there are no more; each group is older than the last."""
        last = None if before is None else _CREATED.pack(before[0]) + before[1].encode()
        newest = "+inf" if before is None else str(before[0] // _MINUTE_MS)
        index = self._index(tenant)
        members = await self._server.plain(
            index, "ZRANGEBYSCORE", index.key("lists"), "-inf", newest
        )
        lists: dict[int, set[InstanceId]] = {}
        for member in members:
            minute, _, instance_id = member.decode().partition(" ")
            lists.setdefault(int(minute), set()).add(InstanceId(instance_id))
        for owner, instance_id, minute in (*self._waiting, *self._writing):
            if owner == tenant and (before is None or minute <= before[0] // _MINUTE_MS):
                lists.setdefault(minute, set()).add(instance_id)
        for minute in sorted(lists, reverse=True):
            found: set[bytes] = set()
            instances = sorted(lists[minute])
            for start in range(0, len(instances), _LISTS_AT_ONCE):
                some = instances[start : start + _LISTS_AT_ONCE]
                answers = await asyncio.gather(
                    *(self._read((tenant, instance_id, minute)) for instance_id in some)
                )
                found.update(entry for answer in answers for entry in answer)
            entries = sorted(found, reverse=True)
            names = [
                JobId(entry[_CREATED.size :].decode())
                for entry in entries
                if last is None or entry < last
            ]
            for start in range(0, len(names), max(1, limit)):
                yield names[start : start + limit]

    async def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(self._write(), return_exceptions=True)

    async def _read(self, name: _List) -> list[bytes]:
        tag = self._list(name)
        written: list[bytes] = await self._server.plain(tag, "LRANGE", tag.key(_key(name)), 0, -1)
        return [*written, *self._writing.get(name, ()), *self._waiting.get(name, ())]

    def _write_soon(self) -> None:
        self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Write what waits; what could not be written waits again. Written twice, it is once."""
        self._writing, self._waiting = self._waiting, {}
        writing = self._writing
        answers = await asyncio.gather(
            *(self._write_list(name, entries) for name, entries in writing.items()),
            return_exceptions=True,
        )
        self._writing = {}
        for (name, entries), answer in zip(writing.items(), answers, strict=True):
            if isinstance(answer, BaseException):
                self._waiting[name] = entries + self._waiting.get(name, [])
        if self._waiting and self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_SECONDS, self._write_soon)

    async def _write_list(self, name: _List, entries: list[bytes]) -> None:
        tag, key = self._list(name), _key(name)
        calls: list[Future[Answer]] = [
            self._server.plain(tag, "RPUSH", tag.key(key), *entries),
            self._server.plain(tag, "PEXPIRE", tag.key(key), self._keep_ms),
        ]
        if name not in self._indexed:
            tenant, instance_id, minute = name
            index = self._index(tenant)
            lists = index.key("lists")
            oldest = minute - self._keep_ms // _MINUTE_MS - 1
            calls += (
                self._server.plain(index, "ZADD", lists, minute, f"{minute} {instance_id}"),
                self._server.plain(index, "ZREMRANGEBYSCORE", lists, "-inf", oldest),
                self._server.plain(index, "PEXPIRE", lists, self._keep_ms),
            )
        await asyncio.gather(*calls)
        self._indexed = {known for known in self._indexed if known[2] >= name[2] - 1} | {name}

    def _index(self, tenant: TenantId) -> FunctionTag:
        return FunctionTag(self._server.key_prefix, f"t{_digits(tenant)}", SHARD)

    def _list(self, name: _List) -> FunctionTag:
        tenant, instance_id, _ = name
        return FunctionTag(self._server.key_prefix, f"n{_digits(f'{tenant} {instance_id}')}", SHARD)


def _key(name: _List) -> str:
    return f"jobs:{name[2]}"


def _digits(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
