"""How seats and attempts look inside Redis. The Lua files beside describe the same forms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from struct import Struct

import msgspec

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId
from dragoman.live.ledger import DirectoryEntry, Owner, SeatRecord, Times
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, JobResult, Outcome
from dragoman.live.shared import records as r
from dragoman.live.shared.check import AttemptFacts, SeatFacts
from dragoman.live.shared.redis.packing import UNREADABLE, name_at, pack

_RECORD = Struct(">HHHBBIIIdd8s")
_ENTRY = Struct("<BBBBB4I6d8s")
_NODE_AT = _ENTRY.size - 8
_LENGTH = Struct("<H")
_TIME = Struct("<d")
_DIRECTORY = Struct("<II")

_ONLINE, _DRAINED, _SEATED = 1, 2, 4
_ASKED = 2

STATES = (
    AttemptState.DISPATCHED,
    AttemptState.ACCEPTED,
    AttemptState.RUNNING,
    AttemptState.CANCELLING,
    AttemptState.FINISHED,
)
STATE_NUMBERS = {state: number for number, state in enumerate(STATES)}
CANCELLING, FINISHED, TOMBSTONE, HEIR = 3, 4, 5, 6

HELD_AGAIN = "~"
"""Behind the id of an attempt that is over and that its node still runs."""


@lru_cache(maxsize=16_384)
def node_digest(node_id: NodeId) -> bytes:
    """What stands for a node in the records of a cell."""
    return blake2b(node_id.encode(), digest_size=8).digest()


@lru_cache(maxsize=512)
def candidate_bytes(mask: int) -> bytes:
    """One byte, the seat's index, for each set bit; the same masks come back with every ask."""
    return bytes(index for index in range(min(mask.bit_length(), 256)) if mask >> index & 1)


# --- owners -------------------------------------------------------------------------------------


class _PackedOwner(msgspec.Struct, array_like=True, frozen=True):
    node_id: NodeId
    instance_id: InstanceId
    connection_id: ConnectionId
    epoch: int


_decode_owner = msgspec.msgpack.Decoder(_PackedOwner).decode


def pack_owner(node_id: NodeId, owner: Owner) -> bytes:
    """Who sits on a seat: the node, and the connection it is reached through."""
    return pack(_PackedOwner(node_id, owner.instance_id, owner.connection_id, owner.epoch))


def read_owner(packed: bytes) -> tuple[NodeId, Owner]:
    it = _decode_owner(packed)
    return it.node_id, Owner(it.instance_id, it.connection_id, it.epoch)


# --- attempts -----------------------------------------------------------------------------------


class _End(msgspec.Struct, array_like=True, frozen=True):
    """How an attempt ended; the result lies elsewhere when it is long."""

    outcome: Outcome
    error: ErrorInfo | None
    output: JobResult | None
    elsewhere: bool = False


_read_end = msgspec.msgpack.Decoder(_End).decode
_read_error = msgspec.msgpack.Decoder(ErrorInfo).decode


def pack_end(
    outcome: Outcome,
    error: ErrorInfo | None,
    output: JobResult | None,
    *,
    elsewhere: bool = False,
) -> bytes:
    return pack(_End(outcome, error, output, elsewhere))


class PackedAttempt(msgspec.Struct, frozen=True):
    """An attempt's record as it was read. The owner of one that holds a slot is its seat's."""

    attempt_id: AttemptId
    index: int
    state: int
    job_class: JobClass
    flags: int
    preemptions: int
    epoch: int
    due_at_ms: int
    dispatched_ms: int
    accepted_ms: int
    running_ms: int
    finished_ms: int
    run_until_ms: int
    node: bytes
    job_id: JobId
    instance_id: InstanceId
    grave_until_ms: int
    """Of a finished one: until when a tombstone stands beside its end."""
    extra: bytes

    @property
    def holds_slot(self) -> bool:
        return self.state <= CANCELLING

    @property
    def times(self) -> Times:
        finished_ms = self.finished_ms if self.state == FINISHED else 0
        return Times(self.dispatched_ms, self.accepted_ms, self.running_ms, finished_ms)

    @property
    def result_elsewhere(self) -> bool:
        if self.state != FINISHED:
            return False
        (length,) = _LENGTH.unpack_from(self.extra)
        return _read_end(self.extra[_LENGTH.size + length :]).elsewhere


def is_node(packed: bytes, node: bytes) -> bool:
    """Whether the entry is of an attempt on this node; most are not, and need not be read."""
    return packed[_NODE_AT : _ENTRY.size] == node


def read_entry(field: bytes, packed: bytes) -> PackedAttempt:
    (
        index,
        state,
        job_class,
        flags,
        preemptions,
        epoch,
        _,
        _,
        _,
        due,
        dispatched,
        accepted,
        running,
        finished,
        run_until,
        node,
    ) = _ENTRY.unpack_from(packed)
    job_id, at = name_at(packed, _ENTRY.size)
    instance_id, at = name_at(packed, at)
    peer, at = name_at(packed, at)
    grave = _TIME.unpack(peer)[0] if state == FINISHED and len(peer) == _TIME.size else 0
    return PackedAttempt(
        attempt_id=AttemptId(field.decode().removesuffix(HELD_AGAIN)),
        index=index,
        state=state,
        job_class=JobClass.BATCH if job_class else JobClass.LIVE,
        flags=flags,
        preemptions=preemptions,
        epoch=epoch,
        due_at_ms=int(due),
        dispatched_ms=int(dispatched),
        accepted_ms=int(accepted),
        running_ms=int(running),
        finished_ms=int(finished),
        run_until_ms=int(run_until),
        node=node,
        job_id=JobId(job_id.decode()),
        instance_id=InstanceId(instance_id.decode()),
        grave_until_ms=int(grave),
        extra=packed[at:],
    )


def stored_attempt(cell: int, entry: PackedAttempt, owner: bytes) -> r.StoredAttempt | None:
    """The attempt with its owner; None when the seat has another owner by now."""
    ended = None
    extra = entry.extra
    if entry.state == FINISHED:
        (length,) = _LENGTH.unpack_from(extra)
        owner = extra[_LENGTH.size : _LENGTH.size + length]
        ended = _read_end(extra[_LENGTH.size + length :])
    if not owner:
        return None
    node_id, seated = read_owner(owner)
    if node_digest(node_id) != entry.node:
        return None
    error = ended.error if ended is not None else None
    if entry.state == CANCELLING and extra:
        error = _read_error(extra)
    return r.StoredAttempt(
        attempt_id=entry.attempt_id,
        job_id=entry.job_id,
        cell=cell,
        node_id=node_id,
        owner=seated,
        job_class=entry.job_class,
        state=STATES[entry.state],
        instance_id=entry.instance_id,
        due_at_ms=entry.due_at_ms,
        run_until_ms=entry.run_until_ms,
        asked=bool(entry.flags & _ASKED),
        times=entry.times,
        outcome=ended.outcome if ended is not None else None,
        error=error,
        output=ended.output if ended is not None else None,
        preemptions=entry.preemptions,
    )


_WAITER = Struct("<ddB")


def count_waiters(packed: bytes, now_ms: int) -> int:
    """How many notes of instances that wait still count."""
    at = count = 0
    while at < len(packed):
        _, until, _ = _WAITER.unpack_from(packed, at)
        at += _WAITER.size
        for _ in range(2):
            _, at = name_at(packed, at)
        at += _LENGTH.size + _LENGTH.unpack_from(packed, at)[0]
        count += until > now_ms
    return count


# --- seats --------------------------------------------------------------------------------------


def read_seats(board: bytes, fields: dict[bytes, bytes]) -> tuple[SeatRecord, ...]:
    """The seats of a board, by their index."""
    seats = []
    for index in range(len(board) // _RECORD.size - 1):
        at = _RECORD.size * (index + 1)
        if _RECORD.unpack_from(board, at)[3] >= _SEATED:
            owner, facts = fields[b"i%d" % index], fields[b"f%d" % index]
            seats.append(read_seat(index, board[at : at + _RECORD.size], owner, facts))
    return tuple(seats)


def read_seat(index: int, record: bytes, packed_owner: bytes, facts: bytes) -> SeatRecord:
    """A seat that a node sits on."""
    _, slots, held, flags, _, _, _, _, alive, mean, _ = _RECORD.unpack(record)
    node_id, owner = read_owner(packed_owner)
    return SeatRecord(
        node_id=node_id,
        index=index,
        slots=slots,
        held=held,
        owner=owner,
        online=bool(flags & _ONLINE),
        drained=bool(flags & _DRAINED),
        alive_until_ms=int(alive),
        mean_ms=mean,
        facts=facts,
    )


def is_board(board: bytes) -> bool:
    """Whether it consists of whole records."""
    return len(board) % _RECORD.size == 0


def seat_facts(board: bytes, fields: dict[bytes, bytes]) -> Iterator[SeatFacts]:
    """The seats of a board for the check, whatever state they are in."""
    for index in range(len(board) // _RECORD.size - 1):
        record = _RECORD.unpack_from(board, _RECORD.size * (index + 1))
        held, flags, epoch, node = record[2], record[3], record[5], record[-1]
        if flags < _SEATED:
            continue
        owner = fields.get(b"i%d" % index)
        try:
            node_id = read_owner(owner)[0] if owner else None
        except UNREADABLE:
            node_id = None
        sound = (
            node_id is not None
            and node_digest(node_id) == node
            and fields.get(b"n" + node_id.encode()) == b"%d" % index
        )
        yield SeatFacts(index, node, held, epoch, node_id if sound else None)


def attempt_facts(field: bytes, packed: bytes) -> AttemptFacts:
    """An attempt for the check."""
    entry = read_entry(field, packed)
    if entry.state > HEIR:
        raise ValueError(f"There is no state {entry.state}.")
    if entry.state == FINISHED:
        (length,) = _LENGTH.unpack_from(entry.extra)
        _read_end(entry.extra[_LENGTH.size + length :])
    _, at = name_at(packed, _ENTRY.size)
    _, at = name_at(packed, at)
    peer, _ = name_at(packed, at)
    is_heir, is_cancelling = entry.state == HEIR, entry.state == CANCELLING
    return AttemptFacts(
        field=field.decode(),
        attempt_id=entry.attempt_id,
        job_id=entry.job_id,
        index=entry.index,
        node=entry.node,
        holds_slot=entry.holds_slot,
        is_heir=is_heir,
        is_cancelling=is_cancelling,
        peer=peer.decode() if is_heir or is_cancelling else "",
    )


def read_directory_entry(node_id: NodeId, packed: bytes) -> DirectoryEntry:
    cell, epoch = _DIRECTORY.unpack_from(packed)
    holder, at = name_at(packed, _DIRECTORY.size)
    instance_id, at = name_at(packed, at)
    connection_id, _ = name_at(packed, at)
    owner = Owner(InstanceId(instance_id.decode()), ConnectionId(connection_id.decode()), epoch)
    return DirectoryEntry(node_id, cell, holder.decode(), owner)
