"""How facts look inside Redis, and how they are read back.

Lua packs text only as text, so whatever is packed there is valid UTF-8: errors and owners are
JSON, and what Lua never looks into (specs, inputs, results, facts) stays outside as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

import msgspec

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.records import (
    AttemptRecord,
    JobInput,
    JobRecord,
    JobSpec,
    Owner,
    PastAttempt,
    SeatRecord,
    Times,
)
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobClass,
    JobResult,
    JobState,
    Outcome,
    RunningJob,
)

pack = msgspec.msgpack.Encoder().encode
_pack_json = msgspec.json.Encoder().encode

# --- owners, errors, results --------------------------------------------------------------------


def owner_text(node_id: NodeId, owner: Owner) -> str:
    """A node and the connection it is reached through, as its cell keeps them."""
    return _pack_json((node_id, owner.instance_id, owner.connection_id, owner.epoch)).decode()


@lru_cache(maxsize=16_384)
def owner_in(text: bytes | str) -> tuple[NodeId, Owner]:
    """The node and its connection; the same few texts come back with every grant."""
    node_id, instance_id, connection_id, epoch = msgspec.json.decode(
        text, type=tuple[str, str, str, int]
    )
    return NodeId(node_id), Owner(InstanceId(instance_id), ConnectionId(connection_id), epoch)


def error_text(error: ErrorInfo | None) -> str:
    return "" if error is None else _pack_json(error).decode()


_read_error = msgspec.json.Decoder(ErrorInfo).decode


def error_in(text: bytes | str) -> ErrorInfo | None:
    return _read_error(text) if text else None


def result_blob(result: JobResult | None) -> bytes:
    return b"" if result is None else pack(result)


_read_result = msgspec.msgpack.Decoder(JobResult).decode


def result_in(blob: bytes) -> JobResult | None:
    return _read_result(blob) if blob else None


read_input = msgspec.msgpack.Decoder(JobInput).decode
_read_spec = msgspec.msgpack.Decoder(JobSpec).decode

# --- lists of attempts --------------------------------------------------------------------------


def flat(running: Sequence[RunningJob]) -> list[str]:
    """job_id, attempt_id, job_id, attempt_id, ..."""
    return [name for job in running for name in (job.job_id, job.attempt_id)]


def running_in(names: Sequence[bytes]) -> tuple[RunningJob, ...]:
    return tuple(
        RunningJob(JobId(names[at].decode()), AttemptId(names[at + 1].decode()))
        for at in range(0, len(names), 2)
    )


def freed_in(slots: int, inherited: Sequence[bytes]) -> a.Freed:
    if not slots and not inherited:
        return a.NOTHING_FREED
    return a.Freed(
        slots, tuple(a.Inherited(job.job_id, job.attempt_id) for job in running_in(inherited))
    )


def times_list(times: Times | None) -> tuple[int, int, int, int]:
    if times is None:
        return (0, 0, 0, 0)
    return (times.dispatched_ms, times.accepted_ms, times.running_ms, times.finished_ms)


# --- seats --------------------------------------------------------------------------------------

_SEAT = Struct(">HHHBBddd")
_ONLINE, _DRAINED = 1, 2


def seats_in(board: bytes, fields: Sequence[bytes]) -> tuple[SeatRecord, ...]:
    """The seats of a cell, by index."""
    texts = dict(zip(fields[::2], fields[1::2], strict=True))
    found = []
    for index in range(len(board) // _SEAT.size - 1):
        text = texts.get(b"i%d" % index)
        if text is None:
            continue
        _, slots, held, flags, _, _, alive_until_ms, mean_ms = _SEAT.unpack_from(
            board, _SEAT.size * (index + 1)
        )
        node_id, owner = owner_in(text)
        found.append(
            SeatRecord(
                node_id=node_id,
                index=index,
                slots=slots,
                held=held,
                owner=owner,
                online=bool(flags & _ONLINE),
                drained=bool(flags & _DRAINED),
                alive_until_ms=int(alive_until_ms),
                mean_ms=mean_ms,
                facts=texts[b"f%d" % index],
            )
        )
    return tuple(found)


# --- attempts -----------------------------------------------------------------------------------


class _PackedAttempt(msgspec.Struct, array_like=True, frozen=True):
    """The fields of lua/cell/attempts.lua, in its order."""

    job_id: JobId
    node_id: NodeId
    index: int
    owner: str
    epoch: int
    job_class: JobClass
    lease_ms: int
    run_ms: int
    due_at_ms: int
    state: AttemptState
    acked: bool
    asked: bool
    run_until_ms: int
    dispatched_ms: int
    accepted_ms: int
    running_ms: int
    finished_ms: int
    outcome: str
    error: str
    by_node: bool
    preemptions: int


_read_attempt = msgspec.msgpack.Decoder(_PackedAttempt).decode


def attempt_in(cell: int, attempt_id: AttemptId, packed: bytes, result: bytes) -> AttemptRecord:
    attempt = _read_attempt(packed)
    return AttemptRecord(
        attempt_id=attempt_id,
        job_id=attempt.job_id,
        cell=cell,
        node_id=attempt.node_id,
        owner=owner_in(attempt.owner)[1],
        job_class=attempt.job_class,
        state=attempt.state,
        acked=attempt.acked,
        due_at_ms=attempt.due_at_ms,
        run_until_ms=attempt.run_until_ms,
        asked=attempt.asked,
        times=Times(
            attempt.dispatched_ms, attempt.accepted_ms, attempt.running_ms, attempt.finished_ms
        ),
        outcome=Outcome(attempt.outcome) if attempt.outcome else None,
        error=error_in(attempt.error),
        output=result_in(result),
        preemptions=attempt.preemptions,
    )


# --- jobs ---------------------------------------------------------------------------------------

NO_LIMIT = -1
"""For a time or a number that is not set."""


class _PackedPast(msgspec.Struct, array_like=True, frozen=True):
    attempt_id: AttemptId
    cell: int
    node_id: NodeId
    bound: bool
    counts: bool
    outcome: str
    error: str
    dispatched_ms: int
    accepted_ms: int
    running_ms: int
    finished_ms: int

    def record(self) -> PastAttempt:
        return PastAttempt(
            attempt_id=self.attempt_id,
            cell=self.cell,
            node_id=self.node_id,
            bound=self.bound,
            counts=self.counts,
            outcome=Outcome(self.outcome) if self.outcome else None,
            error=error_in(self.error),
            times=Times(self.dispatched_ms, self.accepted_ms, self.running_ms, self.finished_ms),
        )


class _PackedJob(msgspec.Struct, array_like=True, frozen=True):
    """The fields of lua/job/job.lua, in its order."""

    state: JobState
    claimed_by: InstanceId
    created_at_ms: int
    claim_until_ms: int
    total_until_ms: int
    batch_time: bool
    current: AttemptId
    outcome: str
    error: str
    finished_at_ms: int
    lease_until_ms: int
    release_at_ms: int
    forget_at_ms: int
    preemptions: int
    binding: str
    body_hash: str
    recent_name: str
    attempts: list[_PackedPast]


_read_job = msgspec.msgpack.Decoder(_PackedJob).decode


def job_in(
    job_id: JobId, packed: bytes, spec: bytes, result: bytes | JobResult | None
) -> JobRecord:
    """The record of a job; its result is passed as it is when the asker has it at hand."""
    job = _read_job(packed)
    return JobRecord(
        job_id=job_id,
        spec=_read_spec(spec),
        state=job.state,
        claimed_by=job.claimed_by,
        created_at_ms=job.created_at_ms,
        claim_until_ms=job.claim_until_ms,
        total_until_ms=None if job.total_until_ms == NO_LIMIT else job.total_until_ms,
        attempts=tuple(past.record() for past in job.attempts),
        current=job.current or None,
        outcome=Outcome(job.outcome) if job.outcome else None,
        error=error_in(job.error),
        output=result_in(result) if isinstance(result, bytes) else result,
        finished_at_ms=job.finished_at_ms,
        preemptions=job.preemptions,
    )
