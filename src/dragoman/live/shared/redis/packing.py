"""How jobs and sessions look inside Redis. The Lua files beside describe the same forms.

Numbers have fixed places, names have their length before them, and what the functions never look
into (specs, inputs, ends, deliveries) is packed here and opaque there.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from struct import Struct
from typing import TypeVar

import msgspec

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId, SessionId, TenantId
from dragoman.live.ledger import JobInput, JobSpec, PastAttempt, Times
from dragoman.live.protocol import ErrorInfo, JobResult, Outcome, SessionInit
from dragoman.live.shared import records as r

pack = msgspec.msgpack.Encoder().encode

_LENGTH = Struct("<I")
_HEAD = Struct("<cBB7d")
_CELL = Struct("<H")

INPUT_ELSEWHERE, RESULT_ELSEWHERE, RELEASED = 1, 2, 4

OPEN = b"O"
STATES = {Outcome.SUCCESS: b"S", Outcome.FAILED: b"F", Outcome.CANCELLED: b"C"}
OUTCOMES = {state: outcome for outcome, state in STATES.items()}

_LONGEST_NAME = 255
_ONE_BYTE = tuple(bytes((number,)) for number in range(_LONGEST_NAME + 1))

T = TypeVar("T")

UNREADABLE = (struct.error, LookupError, ValueError, OverflowError, msgspec.MsgspecError)
"""What the functions that read raise when something is in none of the forms they know."""

NO_NAME = b"\0"


def name(value: str | bytes) -> bytes:
    """A short text, with its length in one byte before it."""
    data = value.encode() if isinstance(value, str) else value
    try:
        return _ONE_BYTE[len(data)] + data
    except IndexError:
        raise ValueError(f"A name of {len(data)} bytes does not fit: {data[:40]!r}...") from None


def names(*values: str | bytes) -> bytes:
    """Short texts, each with its length before it."""
    return b"".join(map(name, values))


kept_name = lru_cache(maxsize=16_384)(name)
"""The same, for names that come again with every job and are few: of instances and languages.

What comes and goes, as connections do, would fill it for hours.
"""


def name_at(data: bytes, at: int) -> tuple[bytes, int]:
    """A short text and where the next begins."""
    end = at + 1 + data[at]
    return data[at + 1 : end], end


def block(data: bytes) -> bytes:
    """Anything, with its length in four bytes before it."""
    return _LENGTH.pack(len(data)) + data


def block_at(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + _LENGTH.unpack_from(data, at)[0]
    return data[at + 4 : end], end


# --- jobs ---------------------------------------------------------------------------------------

_read_spec = msgspec.msgpack.Decoder(JobSpec).decode
read_input = msgspec.msgpack.Decoder(JobInput).decode
read_result = msgspec.msgpack.Decoder(JobResult).decode
_read_past = msgspec.msgpack.Decoder(PastAttempt).decode


class _End(msgspec.Struct, array_like=True, frozen=True):
    """How a job ended, but for its result."""

    error: ErrorInfo | None
    node_id: NodeId | None
    times: Times
    last: PastAttempt | None = None
    """The attempt that the record names, where the job outlived it."""


_read_end = msgspec.msgpack.Decoder(_End).decode


def end_body(
    error: ErrorInfo | None,
    node_id: NodeId | None,
    times: Times,
    output: bytes,
    last: PastAttempt | None = None,
) -> bytes:
    """The body of an ended job's record; an empty output where it lies elsewhere."""
    return block(pack(_End(error, node_id, times, last))) + output


def new_record(job: r.NewJob, instance_id: InstanceId, body: bytes) -> bytes:
    """All of a new job's record but its head, which the server's time goes into."""
    body_hash, job_id, attempt_id = job.body_hash, job.job_id.encode(), job.attempt_id.encode()
    spec, size = pack(job.spec), _LENGTH.pack
    # Every job comes by here: written out, a call less each.
    return b"".join(
        (
            _CELL.pack(job.cell),
            *(_ONE_BYTE[len(body_hash)], body_hash),
            *(_ONE_BYTE[len(job_id)], job_id),
            *(_ONE_BYTE[len(attempt_id)], attempt_id),
            kept_name(instance_id),
            *(size(len(spec)), spec),
            *(size(len(body)), body),
        )
    )


class PackedJob(msgspec.Struct, frozen=True):
    """A job's record as it was read: the job, and where its payload is."""

    job: r.StoredJob
    is_open: bool
    input: bytes | None
    """None: it lies elsewhere, or the job has ended."""
    result_elsewhere: bool


def read_record(value: bytes, now_ms: int) -> PackedJob:
    state, flags, preemptions, *times = _HEAD.unpack_from(value)
    created, claim, _, total, _, release, _ = times
    (cell,) = _CELL.unpack_from(value, _HEAD.size)
    at = _HEAD.size + _CELL.size
    body_hash, at = name_at(value, at)
    job_id, at = name_at(value, at)
    attempt_id, at = name_at(value, at)
    instance_id, at = name_at(value, at)
    spec, at = block_at(value, at)
    body, at = block_at(value, at)
    past = []
    while at < len(value):
        one, at = block_at(value, at)
        past.append(_read_past(one))
    job = r.StoredJob(
        job_id=JobId(job_id.decode()),
        spec=_read_spec(spec),
        body_hash=body_hash,
        instance_id=InstanceId(instance_id.decode()),
        attempt_id=AttemptId(attempt_id.decode()),
        cell=cell,
        created_ms=int(created),
        claim_until_ms=int(claim),
        total_until_ms=None if total < 0 else int(total),
        past=tuple(past),
        preemptions=preemptions,
    )
    if state == OPEN:
        return PackedJob(job, True, None if flags & INPUT_ELSEWHERE else body, False)
    packed, at = block_at(body, 0)
    end, released = _read_end(packed), release <= now_ms
    output = b"" if released else body[at:]
    if end.last is not None:
        past.append(end.last)
    job = msgspec.structs.replace(
        job,
        past=tuple(past),
        outcome=OUTCOMES[state],
        error=end.error,
        output=read_result(output) if output else None,
        node_id=end.node_id,
        times=end.times,
        released=released,
    )
    elsewhere = bool(flags & RESULT_ELSEWHERE) and not released
    return PackedJob(job, False, None, elsewhere)


class JobHead(msgspec.Struct, frozen=True):
    """What a job's record begins with."""

    job_id: JobId
    attempt_id: AttemptId
    is_open: bool


MOST_HEAD_BYTES = 1_100
"""The beginning of a record, up to its names, is no longer than this."""


def read_head(head: bytes) -> JobHead:
    """Read the beginning of a record."""
    _, at = name_at(head, _HEAD.size + _CELL.size)
    job_id, at = name_at(head, at)
    attempt_id, _ = name_at(head, at)
    return JobHead(JobId(job_id.decode()), AttemptId(attempt_id.decode()), head[:1] == OPEN)


def is_forgotten(value: bytes, now_ms: int) -> bool:
    """Whether a record only waits for its time to live to end."""
    forget: float = _HEAD.unpack_from(value)[-1]
    return 0 < forget <= now_ms


# --- sessions -----------------------------------------------------------------------------------

_HEADER = Struct("<dd6I")
_EPOCH = Struct("<I")
_INDEX = Struct("<i")
_NUMBER = Struct("<I")
_WITH_JOB, _WITHOUT = b"J", b"N"


class _Start(msgspec.Struct, array_like=True, frozen=True):
    """What of a session's record never changes."""

    tenant: TenantId
    secret_hash: str
    init: SessionInit


_read_start = msgspec.msgpack.Decoder(_Start).decode
_read_sent = msgspec.msgpack.Decoder(tuple[str | None, str | None]).decode

mark = _WITHOUT + pack((None, r.DROPPED))
"""What stays of a delivery that was not acknowledged for too long."""


def session_header(session: r.StoredSession) -> bytes:
    owner = session.owner
    unacknowledged = [sent.seq for sent in session.unacknowledged]
    acknowledged = min(unacknowledged, default=session.next_seq) - 1
    ended = b"".join(names(target) + _INDEX.pack(index) for target, index in session.ended.items())
    return b"".join(
        (
            _HEADER.pack(
                0,
                0,
                owner.epoch,
                session.revision,
                session.next_chunk_seq,
                session.next_index,
                session.next_seq,
                acknowledged,
            ),
            names(owner.instance_id, owner.connection_id, session.half_sample, b""),
            ended,
        )
    )


def session_start(session: r.StoredSession) -> bytes:
    return pack(_Start(session.tenant, session.secret_hash, session.init))


def session_field(index: int, target: str) -> bytes:
    return f"u{index} {target}".encode()


def session_fields(session: r.StoredSession) -> list[bytes]:
    """A field and its value for each utterance that is open or not acknowledged."""
    fields: list[bytes] = []
    for each in session.open:
        fields += (session_field(each.index, each.target), OPEN + each.job_id.encode())
    for sent in session.unacknowledged:
        entry = sent.delivery
        fields += (
            session_field(entry.index, entry.target),
            b"D" + _NUMBER.pack(sent.seq) + delivery(entry),
        )
    return fields


def delivery(entry: r.Delivery) -> bytes:
    """What is kept of a delivery beside its number."""
    kind = _WITHOUT if entry.job_id is None else _WITH_JOB
    return kind + pack((entry.job_id, entry.reason))


def read_session(
    session_id: SessionId, fields: dict[bytes, bytes]
) -> tuple[r.StoredSession, r.SessionOwner]:
    """The session, and whom its owner took it from (itself, if from none)."""
    header = fields[b"h"]
    _, _, epoch, revision, chunk, index, seq, _ = _HEADER.unpack_from(header)
    instance_id, at = name_at(header, _HEADER.size)
    connection_id, at = name_at(header, at)
    half_sample, at = name_at(header, at)
    before, at = name_at(header, at)
    ended = {}
    while at < len(header):
        target, at = name_at(header, at)
        (ended[target.decode()],) = _INDEX.unpack_from(header, at)
        at += _INDEX.size
    owner = _owner(epoch, instance_id, connection_id)
    opened, sent = [], []
    for field, value in fields.items():
        if field[:1] == b"u":
            one = read_utterance(field, value)
            if isinstance(one, r.OpenUtterance):
                opened.append(one)
            else:
                sent.append(one)
    start = _read_start(fields[b"s"])
    session = r.StoredSession(
        session_id=session_id,
        tenant=start.tenant,
        secret_hash=start.secret_hash,
        init=start.init,
        owner=owner,
        revision=revision,
        next_chunk_seq=chunk,
        half_sample=half_sample,
        next_index=index,
        next_seq=seq,
        open=tuple(sorted(opened, key=lambda each: (each.index, each.target))),
        unacknowledged=tuple(sorted(sent, key=lambda each: each.seq)),
        ended=ended,
    )
    if not before:
        return session, owner
    before_epoch = _EPOCH.unpack_from(before)[0]
    before_instance, at = name_at(before, _EPOCH.size)
    return session, _owner(before_epoch, before_instance, name_at(before, at)[0])


def read_utterance(field: bytes, value: bytes) -> r.OpenUtterance | r.SentDelivery:
    """An utterance of a session that is open, or whose delivery is not acknowledged."""
    number, _, name = field[1:].decode().partition(" ")
    if value[:1] == OPEN:
        return r.OpenUtterance(int(number), name, JobId(value[1:].decode()))
    (seq,) = _NUMBER.unpack_from(value, 1)
    job_id, reason = _read_sent(value[6:])
    entry = r.Delivery(int(number), name, None if job_id is None else JobId(job_id), reason)
    return r.SentDelivery(seq, entry)


def has_lapsed(header: bytes, now_ms: int) -> bool:
    """Whether a session's record only waits for its time to live to end."""
    expires: float = _HEADER.unpack_from(header)[0]
    return expires <= now_ms


def _owner(epoch: int, instance_id: bytes, connection_id: bytes) -> r.SessionOwner:
    return r.SessionOwner(
        InstanceId(instance_id.decode()), ConnectionId(connection_id.decode()), epoch
    )
