"""Whether what is kept fits together: slots and attempts, open jobs and records, nodes and seats.

Pure: what was read goes in, and what does not fit comes out. Nothing is read at one moment, and
while instances work something is always on its way. So damage is what is found twice, some time
apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from dragoman.ids import AttemptId, JobId, NodeId


class Damage(StrEnum):
    """What can be wrong."""

    HELD_COUNT = "held_count"
    """A seat counts more or fewer slots as held than attempts hold."""
    ATTEMPT_WITHOUT_SEAT = "attempt_without_seat"
    """An attempt holds a slot of a node that has no seat there."""
    HEIR_WITHOUT_VICTIM = "heir_without_victim"
    """An attempt waits for the slot of one that does not pass it on."""
    ATTEMPT_WITHOUT_JOB = "attempt_without_job"
    """An attempt holds a slot for a job that has ended, is gone, or goes on with another."""
    SEAT_WITHOUT_NODE = "seat_without_node"
    """A seat does not say which node has it."""
    SEAT_WITHOUT_ENTRY = "seat_without_entry"
    """The directory does not know a seat's node, or has it in another cell."""
    DIRECTORY_COUNT = "directory_count"
    """The directory's lists do not agree about the nodes of a cell."""
    OPEN_WITHOUT_RECORD = "open_without_record"
    """A job is listed as open and is not."""
    RECORD_NOT_LISTED = "record_not_listed"
    """An open job is not listed as such: no sweep would find it."""
    UTTERANCE_WITHOUT_JOB = "utterance_without_job"
    """A session waits for a job that is gone."""
    NO_TIME_TO_LIVE = "no_time_to_live"
    """A key would stay for ever."""
    UNREADABLE = "unreadable"
    """A key or one of its fields is in no form that Dragoman writes."""
    INBOX_WITHOUT_INSTANCE = "inbox_without_instance"
    """Notes wait for an instance that has no record."""
    UNDECLARED_KEY = "undeclared_key"
    """A key under the prefix is of no kind that Dragoman keeps."""


REPAIRABLE = frozenset(Damage) - {Damage.UTTERANCE_WITHOUT_JOB, Damage.UNDECLARED_KEY}
"""What can be put right without asking the instance that owns it."""


class Removal(msgspec.Struct, frozen=True):
    """How to remove what is of no use, only while it is what was found."""

    function: str
    """One of `functions/check.lua`."""
    keys: tuple[bytes, ...]
    found: tuple[bytes, ...] = ()
    """What the function compares with."""


class LedgerFinding(msgspec.Struct, frozen=True):
    """Something that does not fit."""

    damage: Damage
    subject: str
    """What it is about: together with the damage it names the finding."""
    found: str
    """What was read, in words."""
    cell: int = -1
    name: str = ""
    """The node, attempt, job or key that is to be put right."""
    removal: Removal | None = None
    """Where the repair is to remove it."""

    @property
    def identity(self) -> tuple[Damage, str]:
        return self.damage, self.subject


def confirmed(
    first: Sequence[LedgerFinding], second: Sequence[LedgerFinding]
) -> tuple[LedgerFinding, ...]:
    """What was found both times, as it was found last."""
    before = {finding.identity for finding in first}
    return tuple(finding for finding in second if finding.identity in before)


def unreadable_field(key: bytes, field: bytes, value: bytes, kind: str) -> LedgerFinding:
    """A field of a hash that is not what it should be."""
    return LedgerFinding(
        Damage.UNREADABLE,
        f"field {shown(field)} of {shown(key)}",
        f"its {_bytes(value)} cannot be read as {kind}",
        removal=Removal("remove_field", (key,), (field, value)),
    )


def unreadable_string(key: bytes, value: bytes, kind: str) -> LedgerFinding:
    """A string that is not what it should be."""
    return LedgerFinding(
        Damage.UNREADABLE,
        f"key {shown(key)}",
        f"its {_bytes(value)} cannot be read as {kind}",
        removal=Removal("remove_string", (key,), (value,)),
    )


def unreadable_hash(key: bytes, field: bytes, value: bytes, kind: str) -> LedgerFinding:
    """A hash that is not what it should be, because of one of its fields."""
    return LedgerFinding(
        Damage.UNREADABLE,
        f"key {shown(key)}",
        f"it cannot be read as {kind}: {_bytes(value)} in its field {shown(field)}",
        removal=Removal("remove_hash", (key,), (field, value)),
    )


def wrong_kind(key: bytes, has: str, wanted: str) -> LedgerFinding:
    """A key of a type that it must not have."""
    return LedgerFinding(
        Damage.UNREADABLE,
        f"key {shown(key)}",
        f"its type is {has}, not {wanted}",
        removal=Removal("remove_kind", (key,), (has.encode(),)),
    )


def inbox_alone(inbox: bytes, record: bytes) -> LedgerFinding:
    """An inbox of an instance that has no record."""
    return LedgerFinding(
        Damage.INBOX_WITHOUT_INSTANCE,
        f"key {shown(inbox)}",
        "there is no instance with that name",
        removal=Removal("remove_alone", (inbox, record)),
    )


def shown(name: bytes) -> str:
    """A name as it can be printed."""
    return name.decode("utf-8", "backslashreplace")


def _bytes(value: bytes) -> str:
    return "1 byte" if len(value) == 1 else f"{len(value)} bytes"


# --- cells --------------------------------------------------------------------------------------


class SeatFacts(msgspec.Struct, frozen=True):
    """A seat as the board has it, and who sits there according to the cell's other key."""

    index: int
    node: bytes
    """What stands for the node."""
    held: int
    epoch: int
    node_id: NodeId | None
    """None: it is not said, or another node than the board's."""


class AttemptFacts(msgspec.Struct, frozen=True):
    """An attempt as its cell has it."""

    field: str
    """Its name, perhaps with a mark behind."""
    attempt_id: AttemptId
    job_id: JobId
    index: int
    node: bytes
    holds_slot: bool
    is_heir: bool
    is_cancelling: bool
    peer: str
    """Of an heir its victim, of a cancelled one its heir."""


class CellCheck:
    """Compares the seats of a cell with its attempts, which may come page by page."""

    def __init__(self, cell: int, seats: Sequence[SeatFacts]) -> None:
        self._cell = cell
        self._seats = {seat.index: seat for seat in seats}
        self._held: Counter[int] = Counter()
        self._strays: list[AttemptFacts] = []
        self._heirs: dict[str, str] = {}
        self._passes_on: dict[str, str] = {}

    def add(self, attempt: AttemptFacts) -> None:
        """Each attempt once."""
        if attempt.is_heir:
            self._heirs[attempt.field] = attempt.peer
        if not attempt.holds_slot:
            return
        seat = self._seats.get(attempt.index)
        if seat is None or seat.node != attempt.node:
            self._strays.append(attempt)
            return
        self._held[attempt.index] += 1
        if attempt.is_cancelling and attempt.peer:
            self._passes_on[attempt.field] = attempt.peer

    def findings(self) -> Iterator[LedgerFinding]:
        for index, seat in sorted(self._seats.items()):
            where = f"seat {index} of cell {self._cell}"
            if seat.node_id is None:
                yield LedgerFinding(
                    Damage.SEAT_WITHOUT_NODE,
                    where,
                    "the cell does not say which node has it",
                    self._cell,
                    str(index),
                )
            elif seat.held != self._held[index]:
                yield LedgerFinding(
                    Damage.HELD_COUNT,
                    where,
                    f"{seat.node_id} counts {_slots(seat.held)} as held, its attempts hold "
                    f"{self._held[index]}",
                    self._cell,
                    str(index),
                )
        for stray in self._strays:
            yield LedgerFinding(
                Damage.ATTEMPT_WITHOUT_SEAT,
                f"attempt {stray.attempt_id} in cell {self._cell}",
                f"it holds a slot of seat {stray.index}, which its node does not have",
                self._cell,
                stray.field,
            )
        for heir, victim in self._heirs.items():
            if self._passes_on.get(victim) != heir:
                yield LedgerFinding(
                    Damage.HEIR_WITHOUT_VICTIM,
                    f"attempt {heir} in cell {self._cell}",
                    f"it waits for the slot of {victim}, which does not pass it on",
                    self._cell,
                    heir,
                )


def check_attempt(
    cell: int, attempt: AttemptFacts, current: AttemptId | None, *, ended: bool
) -> LedgerFinding | None:
    """Compare an attempt that holds a slot, and is not cancelled, with its job.

    `current` is the attempt that the job's record names; None: there is no record.
    """
    if current == attempt.attempt_id and not ended:
        return None
    job = f"job {attempt.job_id}"
    if current is None:
        found = f"{job} is gone"
    elif ended:
        found = f"{job} has ended"
    else:
        found = f"{job} goes on with attempt {current}"
    return LedgerFinding(
        Damage.ATTEMPT_WITHOUT_JOB,
        f"attempt {attempt.attempt_id} in cell {cell}",
        f"it holds a slot, and {found}",
        cell,
        attempt.attempt_id,
    )


def _slots(count: int) -> str:
    return f"{count} slot" if count == 1 else f"{count} slots"


# --- the directory ------------------------------------------------------------------------------


def check_member(node_id: NodeId, entry: int | None, member: int | None) -> LedgerFinding | None:
    """Compare the cell that a node's entry names with the one it is listed in."""
    if entry == member:
        return None
    return LedgerFinding(
        Damage.DIRECTORY_COUNT,
        f"node {node_id}",
        f"its entry says {_cell(entry)}, the list of members {_cell(member)}",
        name=node_id,
    )


def check_count(cell: int, counted: int, members: int) -> LedgerFinding | None:
    """Compare how many nodes of a cell are counted with how many there are."""
    if counted == members:
        return None
    return LedgerFinding(
        Damage.DIRECTORY_COUNT,
        f"cell {cell}",
        f"{counted} nodes are counted in it, {members} are its members",
        cell,
    )


def check_seat(cell: int, seat: SeatFacts, entry: int | None) -> LedgerFinding | None:
    """Compare a seat with the cell that the directory has its node in."""
    if seat.node_id is None or entry == cell:
        return None
    return LedgerFinding(
        Damage.SEAT_WITHOUT_ENTRY,
        f"node {seat.node_id} in cell {cell}",
        f"the directory says {_cell(entry)}",
        cell,
        seat.node_id,
    )


def _cell(cell: int | None) -> str:
    return "nothing" if cell is None else f"cell {cell}"


# --- jobs and sessions --------------------------------------------------------------------------


def check_listed(job_id: JobId, *, is_open: bool) -> LedgerFinding | None:
    """Look at a job that is listed as open."""
    if is_open:
        return None
    found = "it is listed as open, and has ended or is gone"
    return LedgerFinding(Damage.OPEN_WITHOUT_RECORD, f"job {job_id}", found, name=job_id)


def check_record(job_id: JobId, *, is_listed: bool) -> LedgerFinding | None:
    """Look at the record of an open job."""
    if is_listed:
        return None
    found = "it is open, and no sweep looks at it"
    return LedgerFinding(Damage.RECORD_NOT_LISTED, f"job {job_id}", found, name=job_id)


def check_utterance(session_id: str, index: int, target: str, job_id: JobId) -> LedgerFinding:
    """An utterance that is open, and whose job is gone."""
    return LedgerFinding(
        Damage.UTTERANCE_WITHOUT_JOB,
        f"utterance {index} for {target} of session {session_id}",
        f"job {job_id} is gone, and nothing after it is delivered for that target; close the "
        "session",
        name=session_id,
    )
