"""Session records on Redis: any instance may take a session up where another left it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.protocol import SessionInit
from dragoman.live.sessions.record import (
    MOST_TARGETS_ENDED,
    ChangedHands,
    Delivered,
    Holding,
    OpenJob,
    SessionOwner,
    SessionRecord,
    Taken,
    mark_of,
)
from dragoman.live.sessions.unacknowledged import DROPPED, MARKS_PER_MESSAGE
from dragoman.redis_servers import Caller, Operations, Reply, Tag

_LUA = files("dragoman.live.sessions") / "lua"
_RECORD = Operations.read(_LUA / "record", ("record", "dropped"), shared=("record",))
_REGISTER = Operations.read(_LUA / "register", ("sessions",), shared=("register",))


class _Start(msgspec.Struct, array_like=True, frozen=True):
    """What of a record never changes."""

    tenant: TenantId
    secret_hash: str
    init: SessionInit


class _PackedDelivery(msgspec.Struct, array_like=True, frozen=True):
    """A delivery as lua/record/record.lua packs it."""

    utterance_index: int
    target: str
    job_id: str
    reason: str


_pack = msgspec.msgpack.Encoder().encode
_read_start = msgspec.msgpack.Decoder(_Start).decode
_read_delivery = msgspec.msgpack.Decoder(_PackedDelivery).decode
_read_mark = msgspec.msgpack.Decoder(tuple[int, int, str, str]).decode
_read_ended = msgspec.msgpack.Decoder(dict[str, int] | list[int]).decode


class RedisRecords:
    """Session records on a Redis server or a Redis Cluster.

    Every operation is one script on the keys of its session. Nothing is retried behind the
    asker's back: when the server does not answer in time, `DependencyDown` is raised, the outcome
    is unknown, and asking again is safe.
    """

    def __init__(
        self,
        caller: Caller,
        keep_delivered: int,
        *,
        ttl_ms: int,
        key_prefix: str = "dragoman:v1",
    ) -> None:
        """`caller` may be shared; the code that opened it closes it.

        keep_delivered is how far back unacknowledged deliveries are kept. ttl_ms is how long a
        record that its owner neither writes nor renews is kept: longer than a lost client may
        take to resume.
        """
        self._caller = caller
        self._keep_delivered = keep_delivered
        self._most_marks = keep_delivered * MARKS_PER_MESSAGE
        self._ttl_ms = ttl_ms
        self._key_prefix = key_prefix
        self._register = Tag.of(_REGISTER, key_prefix, "sessions", ttl_ms)

    async def create(self, record: SessionRecord) -> None:
        await self.restore(record)

    async def restore(self, record: SessionRecord) -> int:
        first_kept = record.next_delivery_seq - self._keep_delivered
        deliveries, marks = [], []
        for entry in record.unacknowledged:
            if entry.delivery_seq >= first_kept:
                deliveries.append(_delivery(entry))
            else:
                marks.append(_mark(mark_of(entry)))
        arguments = (
            _owner(record.owner),
            record.revision,
            record.next_chunk_seq,
            record.next_utterance_index,
            record.next_delivery_seq,
            [_open_job(job) for job in record.open_jobs],
            deliveries,
            marks[-self._most_marks :],
            [part for pair in record.ended.items() for part in pair],
            record.half_sample.hex(),
        )
        start = _pack(_Start(record.tenant, record.secret_hash, record.init))
        answer, _ = await asyncio.gather(
            self._ask(record.session_id, "put", arguments, start),
            self._ask_register("enter", (record.session_id,)),
        )
        return int(answer)

    async def read(self, session_id: SessionId) -> SessionRecord | None:
        fields, marks = await self._ask(session_id, "read")
        return _record_in(session_id, fields, marks) if fields else None

    async def take(
        self,
        session_id: SessionId,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        *,
        epoch: int | None = None,
    ) -> Taken | ChangedHands | None:
        expected = -1 if epoch is None else epoch
        answer = await self._ask(session_id, "take", (instance_id, connection_id, expected))
        if not answer:
            return None
        if len(answer) == 1:
            return ChangedHands()
        fields, marks, before = answer
        return Taken(_record_in(session_id, fields, marks), _owner_in(*before))

    async def renew(self, held: Sequence[Holding]) -> tuple[SessionId, ...]:
        if not held:
            return ()
        answers = await asyncio.gather(*(self._write("renew", each) for each in held))
        found = list(zip(held, answers, strict=True))
        if kept := [each.session_id for each, answer in found if answer]:
            await self._ask_register("enter", kept)
        return tuple(each.session_id for each, answer in found if not answer)

    async def opened(
        self,
        held: Holding,
        jobs: Sequence[OpenJob],
        *,
        next_chunk_seq: int,
        next_utterance_index: int,
        half_sample: bytes = b"",
    ) -> int:
        told = [_open_job(job) for job in jobs]
        numbers = (next_chunk_seq, next_utterance_index)
        return int(await self._write("opened", held, told, *numbers, half_sample.hex()))

    async def delivered(self, held: Holding, entries: Sequence[Delivered]) -> int:
        told = [_delivery(entry) for entry in entries]
        bounds = (self._keep_delivered, self._most_marks, MOST_TARGETS_ENDED)
        return int(await self._write("delivered", held, told, *bounds))

    async def acknowledged(self, held: Holding, upto: int) -> int:
        return int(await self._write("acknowledged", held, upto))

    async def forget(self, session_id: SessionId, owner: SessionOwner) -> bool:
        if not await self._ask(session_id, "forget", (_owner(owner),)):
            return False
        await self._ask_register("leave", (session_id,))
        return True

    async def count(self) -> int:
        """About how many sessions there are: one whose instance died counts until it lapses."""
        found: int = await self._ask_register("count")
        return found

    def _write(self, name: str, held: Holding, *arguments: Any) -> asyncio.Future[Reply]:
        return self._ask(held.session_id, name, (_owner(held.owner), held.seen, *arguments))

    def _ask(
        self, session_id: SessionId, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> asyncio.Future[Reply]:
        tag = Tag.of(_RECORD, self._key_prefix, session_id, self._ttl_ms)
        return self._send(tag, name, arguments, blobs)

    def _ask_register(self, name: str, arguments: Sequence[Any] = ()) -> asyncio.Future[Reply]:
        return self._send(self._register, name, arguments, ())

    def _send(
        self, tag: Tag, name: str, arguments: Sequence[Any], blobs: Sequence[bytes]
    ) -> asyncio.Future[Reply]:
        return self._caller.ask(tag.name, f"session_{name}", tag.call(name, arguments, blobs))


def _owner(owner: SessionOwner) -> tuple[str, str, int]:
    return (owner.instance_id, owner.connection_id, owner.epoch)


def _open_job(job: OpenJob) -> tuple[int, str, str]:
    return (job.utterance_index, job.target, job.job_id or "")


def _delivery(entry: Delivered) -> tuple[int, int, str, str, str]:
    return (
        entry.delivery_seq,
        entry.utterance_index,
        entry.target,
        entry.job_id or "",
        entry.reason or "",
    )


def _mark(entry: Delivered) -> tuple[int, int, str, str]:
    # Most of them have the same reason, and so it is left out.
    reason = "" if entry.reason == DROPPED else entry.reason or ""
    return (entry.delivery_seq, entry.utterance_index, entry.target, reason)


def _record_in(
    session_id: SessionId, answer: Sequence[bytes], marks: Sequence[bytes]
) -> SessionRecord:
    """The record in the fields and marks of lua/record/record.lua."""
    fields = dict(zip(answer[::2], answer[1::2], strict=True))
    start = _read_start(fields[b"start"])
    open_jobs, deliveries = [], []
    for name, value in fields.items():
        match name[:1], name[1:2].isdigit():
            case b"o", True:
                index, _, target = name[1:].partition(b" ")
                job_id = JobId(value.decode()) if value else None
                open_jobs.append(OpenJob(int(index), target.decode(), job_id))
            case b"d", True:
                deliveries.append(_delivered_in(int(name[1:]), value))
    deliveries.sort(key=lambda entry: entry.delivery_seq)
    return SessionRecord(
        session_id=session_id,
        tenant=start.tenant,
        secret_hash=start.secret_hash,
        init=start.init,
        owner=_owner_in(fields[b"instance"], fields[b"connection"], fields[b"epoch"]),
        revision=int(fields[b"revision"]),
        next_chunk_seq=int(fields[b"chunk"]),
        half_sample=bytes.fromhex(fields.get(b"half", b"").decode()),
        next_utterance_index=int(fields[b"utterance"]),
        next_delivery_seq=int(fields[b"delivery"]),
        open_jobs=tuple(sorted(open_jobs, key=lambda job: (job.utterance_index, job.target))),
        unacknowledged=(*map(_mark_in, marks), *deliveries),
        ended=_ended_in(fields[b"ended"]),
    )


def _owner_in(instance: bytes, connection: bytes, epoch: bytes) -> SessionOwner:
    return SessionOwner(
        InstanceId(instance.decode()), ConnectionId(connection.decode()), int(epoch)
    )


def _mark_in(value: bytes) -> Delivered:
    seq, index, target, reason = _read_mark(value)
    return Delivered(seq, index, target, None, reason or DROPPED)


def _ended_in(value: bytes) -> dict[str, int]:
    found = _read_ended(value)
    # Lua packs an empty table as a list.
    return found if isinstance(found, dict) else {}


def _delivered_in(seq: int, value: bytes) -> Delivered:
    packed = _read_delivery(value)
    return Delivered(
        seq,
        packed.utterance_index,
        packed.target,
        JobId(packed.job_id) if packed.job_id else None,
        packed.reason or None,
    )
