"""Nodes, their seats and the attempts that hold their slots, on Redis."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct

import msgspec

from dragoman.errors import DragomanError
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.ledger import (
    Adoption,
    Beat,
    CellFull,
    CellRecord,
    Cold,
    Done,
    Freed,
    Heartbeat,
    Inherited,
    NodeLost,
    NotSeated,
    Outlook,
    Owner,
    Placed,
    Placement,
    Sender,
    Stale,
    StaleReason,
    Strategy,
    Times,
)
from dragoman.live.protocol import ErrorInfo, JobClass, Outcome, RunningJob
from dragoman.live.shared import records as r
from dragoman.live.shared.hot import AfterFree, AfterReserve, tell
from dragoman.live.shared.redis import cell_packing as packing
from dragoman.live.shared.redis.packing import (
    NO_NAME,
    UNREADABLE,
    kept_name,
    name,
    names,
    pack,
    read_result,
)
from dragoman.live.shared.redis.server import (
    CELL,
    PAYLOAD_BYTES,
    Answer,
    FunctionServer,
    FunctionTag,
    unreadable,
    unstored,
)
from dragoman.task_set import TaskSet

_ASK = Struct("<3I6Bd")
_PREEMPT = Struct("<II")
_SENDER = Struct("<I8s")
_FINISH = Struct("<IBB")
_STEP = Struct("<I8sBI")
_MS = Struct("<I")
_GRANTED = Struct("<BI8sdd")
_FREED = Struct("<ddddB")
_ADOPT = Struct("<4IBB")
_PLACE = Struct("<5IdBH8s")
_BEAT = Struct("<3IBH")
_LOSE = Struct("<IBBB")
_AMEND = Struct("<IiB")
_SINCE = Struct("<d")

_STRATEGIES = {
    Strategy.RANDOM: 0,
    Strategy.POWER_OF_TWO: 1,
    Strategy.LEAST_LOADED: 2,
    Strategy.LATENCY_WEIGHTED: 3,
}
_BLIND_DRAWS = 3
"""Candidates that a random choice looks at before it looks at all."""

_VICTIMS = 8
"""How many batch attempts are named to be preempted: the first may have ended meanwhile."""

_PAGE = 500
"""How many attempts of a cell are looked through at a time."""

_ONLY_ALL, _AS_NAMED, _LOOK = 0, 1, 2
"""What an operation on a seat does about attempts that are not named: see `seat.lua`."""

_LOOKS_FROM_OUTSIDE = 3
"""How often the attempts of a seat are looked for before the server does it itself."""

_Seated = tuple[float, int, bytes]
"""A seat's stamp, epoch and node."""

_LARGEST_CELL = 250
"""A seat's index is one byte wherever it is named."""

_EPOCH_BITS = 32
_VERSION_BITS = 20

_PREEMPTED = pack(ErrorInfo(code="PREEMPTED", message="The slot was needed for live work."))
_LOST = packing.pack_end(
    Outcome.FAILED,
    ErrorInfo(code="NODE_UNAVAILABLE", message="The node that carried the attempt is gone."),
    None,
)


class RedisCells:
    """The part of the shared ledger that knows nodes and slots."""

    def __init__(self, server: FunctionServer, *, cell_size: int, cell_ttl_ms: int) -> None:
        """cell_ttl_ms is how long a cell is kept that no sweep visits."""
        if cell_size > _LARGEST_CELL:
            raise ValueError(f"A cell on Redis has at most {_LARGEST_CELL} seats.")
        self._server = server
        self._cell_size = cell_size
        self._cell_ttl_ms = cell_ttl_ms
        self._tags: dict[int, FunctionTag] = {}
        self._keys: dict[int, tuple[bytes, ...]] = {}
        self._owners: dict[tuple[int, int], tuple[_Seated, tuple[NodeId, Owner]]] = {}
        """Who was last seen on a seat, by its cell and index; one who comes back costs no more."""
        self._tasks = TaskSet()

    @property
    def seen(self) -> tuple[int, ...]:
        """The cells that this process asked."""
        return tuple(self._tags)

    # --- hot ------------------------------------------------------------------------------------

    def reserve(self, ask: r.SlotAsk, then: AfterReserve) -> None:
        waits_for = ask.waits_for
        waiting = kept_name(ask.instance_id) + kept_name(waits_for) if waits_for else b""
        self._server.send(
            self._tag(ask.cell),
            "reserve",
            self._keys[ask.cell],
            self._ask(ask),
            (*self._places(ask), waiting),
            partial(self._reserved, ask.cell, then),
        )

    def _reserved(
        self, cell: int, then: AfterReserve, answer: Answer, error: DragomanError | None
    ) -> None:
        if error is not None:
            then(None, error)
            return
        if type(answer) is bytes:
            index, epoch, node, at_ms, stamp = _GRANTED.unpack(answer)
            known = self._owners.get((cell, index))
            if known is not None and known[0] == (stamp, epoch, node):
                then(r.Granted(cell, index, *known[1], int(at_ms)), None)
            else:
                self._tasks.spawn(tell(partial(self._granted, cell, answer), then))
        elif answer[0] == b"gone":
            then(r.Gone(), None)
        else:
            [why] = answer
            then(r.Full(cold=why == b"cold", headroom=why == b"headroom"), None)

    def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, finish: r.Finish, then: AfterFree
    ) -> None:
        keep, kept = b"", 0
        if finish.keep is not None:
            keep, kept = packing.pack_end(finish.outcome, finish.error, finish.keep), 1
            if len(keep) > PAYLOAD_BYTES:
                self._tasks.spawn(
                    tell(partial(self._finish_long, cell, attempt_id, sender, finish), then)
                )
                return
        self._server.send(
            self._tag(cell),
            "finish",
            self._keys[cell],
            _finish_terms(attempt_id, sender, finish, kept),
            (keep,),
            partial(_finished, cell, attempt_id, then),
        )

    async def _finish_long(
        self, cell: int, attempt_id: AttemptId, sender: Sender, finish: r.Finish
    ) -> r.FreedSlot | r.LateFinish | Stale | Cold:
        """Finish an attempt whose result is stored under a key of its own."""
        tag, name = self._tag(cell), f"o:{attempt_id}"
        payload = self._server.plain(
            tag, "SET", tag.key(name), pack(finish.keep), "PX", self._cell_ttl_ms
        )
        keep = packing.pack_end(finish.outcome, finish.error, None, elsewhere=True)
        terms = _finish_terms(attempt_id, sender, finish, 2)
        call = self._server.call(tag, "finish", (*self._keys[cell], tag.key(name)), terms, keep)
        answer, _ = await asyncio.gather(call, payload)
        return _end_of(cell, attempt_id, answer)

    async def step(self, cell: int, steps: Sequence[r.AttemptStep]) -> tuple[AttemptId, ...]:
        if not steps:
            return ()
        arguments = [
            _STEP.pack(
                step.epoch,
                packing.node_digest(step.sender_node),
                packing.STATE_NUMBERS[step.to],
                step.number,
            )
            + step.attempt_id.encode()
            for step in steps
        ]
        refused = await self._call(cell, "step", b"", *arguments)
        return tuple(steps[position].attempt_id for position in refused)

    # --- rare -----------------------------------------------------------------------------------

    async def preempt(self, ask: r.SlotAsk) -> r.Preempting | r.Granted | r.NoVictim | r.Gone:
        candidates = set(packing.candidate_bytes(ask.candidates))
        able = [
            entry
            for entry in await self._entries(ask.cell)
            if entry.index in candidates
            and entry.state < packing.CANCELLING
            and entry.job_class is JobClass.BATCH
            and entry.preemptions < ask.max_preemptions
        ]
        # The youngest loses the least work.
        able.sort(key=lambda entry: entry.dispatched_ms, reverse=True)
        answer = await self._call(
            ask.cell,
            "preempt",
            self._ask(ask),
            *self._places(ask),
            b"",
            _PREEMPT.pack(ask.max_preemptions, ask.grace_ms) + _PREEMPTED,
            *(entry.attempt_id for entry in able[:_VICTIMS]),
        )
        if isinstance(answer, bytes):
            return await self._granted(ask.cell, answer)
        match answer[0]:
            case b"gone":
                return r.Gone()
            case b"no_victim":
                return r.NoVictim()
        _, job_id, attempt_id, instance_id, index, epoch, node, at_ms = answer
        victim = RunningJob(JobId(job_id.decode()), AttemptId(attempt_id.decode()))
        owner = await self._owner(ask.cell, index, node, epoch)
        if owner is None:
            return r.NoVictim()
        return r.Preempting(victim, InstanceId(instance_id.decode()), *owner, at_ms)

    async def cancel(
        self, cell: int, attempt_id: AttemptId, error: ErrorInfo, *, grace_ms: int
    ) -> r.CancelWon | r.AlreadyEnded | Stale | Cold:
        answer = await self._call(
            cell, "cancel", _MS.pack(grace_ms) + names(attempt_id), pack(error)
        )
        if answer[0] not in (b"won", b"ended"):
            return _stale_or_cold(cell, answer)
        stored = await self._stored(cell, attempt_id.encode(), answer[1], answer[2])
        if stored is None:
            return Stale(StaleReason.UNKNOWN)
        if answer[0] == b"ended":
            return r.AlreadyEnded(stored)
        return r.CancelWon(stored.job_id, stored.node_id, stored.owner, stored.times)

    async def drop(
        self, cell: int, attempt_id: AttemptId, *, tombstone_ms: int
    ) -> r.FreedSlot | Stale | Cold:
        answer = await self._call(cell, "drop", _MS.pack(tombstone_ms) + names(attempt_id))
        return _freed(answer) if answer[0] == b"freed" else _stale_or_cold(cell, answer)

    async def settle(self, cell: int, attempt_ids: Sequence[AttemptId]) -> None:
        if not attempt_ids:
            return
        tag = self._tag(cell)
        elsewhere: list[bytes] = await self._call(cell, "settle", b"", *attempt_ids)
        if elsewhere:
            keys = (tag.key(f"o:{name.decode()}") for name in elsewhere)
            await self._server.plain(tag, "UNLINK", *keys)

    async def look(
        self, cell: int, attempt_id: AttemptId, *, tombstone_ms: int
    ) -> r.StoredAttempt | r.Tombstone:
        answer = await self._call(cell, "look", _MS.pack(tombstone_ms) + names(attempt_id))
        if answer[0] == b"tombstone":
            return r.Tombstone()
        stored = await self._stored(cell, attempt_id.encode(), answer[1], answer[2])
        return r.Tombstone() if stored is None else stored

    async def mark_asked(
        self, cell: int, attempt_id: AttemptId, *, grace_ms: int
    ) -> Done | Stale | Cold:
        answer = await self._call(cell, "mark_asked", _MS.pack(grace_ms) + names(attempt_id))
        return Done() if answer[0] == b"done" else _stale_or_cold(cell, answer)

    async def adopt(self, cell: int, adoption: Adoption) -> Done | Stale | NotSeated | Cold:
        running, sender = adoption.running, adoption.sender
        instance_id = adoption.instance_id
        if not instance_id:
            owner = await self._owner_of_node(cell, sender)
            instance_id = owner.instance_id if owner is not None else instance_id
        terms = _ADOPT.pack(
            sender.epoch,
            adoption.lease_ms,
            adoption.run_ms,
            adoption.number,
            adoption.job_class is JobClass.BATCH,
            adoption.wanted,
        ) + names(sender.node_id, running.job_id, running.attempt_id, instance_id)
        answer = await self._call(cell, "adopt", terms)
        return _refusal(cell, answer, sender.node_id) or Done()

    async def due_attempts(self, cell: int, limit: int) -> tuple[r.StoredAttempt, ...]:
        tag, keys = self._tag(cell), self._cell_keys(cell)
        # A hash that was empty has no time to live when it is filled again.
        for key in keys:
            self._server.plain(tag, "PEXPIRE", key, self._cell_ttl_ms).add_done_callback(_ignore)
        now_ms, entries, owners = await asyncio.gather(
            self._server.now_ms(tag),
            self._entries(cell),
            self._server.plain(tag, "HGETALL", keys[2]),
        )
        seats = dict(zip(owners[::2], owners[1::2], strict=True))
        over = [entry for entry in entries if entry.due_at_ms <= now_ms]
        graves = [entry.attempt_id for entry in over if entry.state == packing.TOMBSTONE]
        if graves:
            await self._call(cell, "clear", b"", *graves)
        due = sorted(
            (entry for entry in over if entry.state <= packing.FINISHED),
            # Of one that is held again although it has ended, the end comes first.
            key=lambda entry: (entry.due_at_ms, entry.attempt_id, -entry.state),
        )
        found: dict[AttemptId, r.StoredAttempt] = {}
        for entry in due:
            if len(found) == limit:
                break
            try:
                stored = packing.stored_attempt(cell, entry, seats.get(b"i%d" % entry.index, b""))
                if stored is not None and entry.attempt_id not in found:
                    found[entry.attempt_id] = await self._with_result(cell, entry, stored)
            except UNREADABLE:
                unreadable(keys[1], entry.attempt_id.encode())
        return tuple(found.values())

    async def outlook(self, cells: Sequence[tuple[int, int]]) -> Outlook:
        records = await asyncio.gather(*(self.read_cell(cell) for cell, _ in cells))
        slots = held = 0
        rate = 0.0
        for (_, mask), record in zip(cells, records, strict=True):
            for seat in record.seats if record is not None else ():
                if mask >> seat.index & 1:
                    slots, held = slots + seat.slots, held + seat.held
                    rate += seat.held / seat.mean_ms if seat.mean_ms else 0.0
        return Outlook(slots, held, int(1 / rate) if rate else None)

    # --- seats ----------------------------------------------------------------------------------

    async def seat(self, cell: int, placement: Placement) -> Placed | CellFull | Stale:
        listed = {running.attempt_id: running for running in placement.running}
        owner = packing.pack_owner(placement.node_id, placement.owner)
        stamp = self._server.random.getrandbits(32)
        first_version = self._server.random.getrandbits(_EPOCH_BITS) << _VERSION_BITS

        def take_seat(how: int, others: Sequence[str]) -> Future[Answer]:
            terms = _PLACE.pack(
                placement.owner.epoch,
                stamp,
                placement.slots,
                placement.lease_ms,
                self._cell_size,
                first_version,
                how,
                len(listed),
                packing.node_digest(placement.node_id),
            ) + names(placement.node_id)
            return self._call(
                cell, "take_seat", terms, owner, placement.facts, _LOST, *listed, *others
            )

        answer = await self._settle_seat(cell, placement.node_id, listed, take_seat)
        match answer[0]:
            case b"cell_full":
                return CellFull()
            case b"stale":
                return Stale(StaleReason(answer[1].decode()))
        return _placed(answer, list(listed.values()))

    async def beat(self, cell: int, heartbeat: Heartbeat) -> Beat | Stale | NotSeated | Cold:
        listed = {running.attempt_id: running for running in heartbeat.running}

        def beat(how: int, others: Sequence[str]) -> Future[Answer]:
            terms = _BEAT.pack(
                heartbeat.epoch, heartbeat.lease_ms, heartbeat.number, how, len(listed)
            ) + names(heartbeat.node_id)
            return self._call(cell, "beat", terms, _LOST, *listed, *others)

        answer = await beat(_ONLY_ALL, ())
        if answer[0] == b"more":
            # What is granted after this look, the node acknowledges after this heartbeat.
            answer = await beat(_AS_NAMED, await self._others(cell, heartbeat.node_id, listed))
        return _refusal(cell, answer, heartbeat.node_id) or _beat(answer, list(listed.values()))

    async def amend(
        self, cell: int, sender: Sender, *, slots: int | None = None, facts: bytes | None = None
    ) -> Done | Stale | NotSeated | Cold:
        terms = _AMEND.pack(sender.epoch, -1 if slots is None else slots, facts is not None)
        answer = await self._call(cell, "amend", terms + names(sender.node_id), facts or b"")
        return _refusal(cell, answer, sender.node_id) or Done(_instances(answer[1]))

    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> Done | NotSeated | Cold:
        answer = await self._call(cell, "set_drained", bytes((drained,)) + names(node_id))
        match answer[0]:
            case b"cold":
                return Cold(cell)
            case b"not_seated":
                return NotSeated(node_id)
        return Done(_instances(answer[1]))

    async def disconnect(self, cell: int, sender: Sender) -> Done | Stale | NotSeated | Cold:
        terms = _MS.pack(sender.epoch) + names(sender.node_id)
        answer = await self._call(cell, "disconnect", terms)
        return _refusal(cell, answer, sender.node_id) or Done()

    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> NodeLost | Stale | NotSeated | Cold:
        return await self._lose(cell, sender, only_if_silent=only_if_silent, remove=False)

    async def remove(self, cell: int, sender: Sender) -> NodeLost | Stale | NotSeated | Cold:
        return await self._lose(cell, sender, only_if_silent=False, remove=True)

    async def read_cell(self, cell: int) -> CellRecord | None:
        answer = await self._call(cell, "read_cell", b"")
        if not answer:
            return None
        version, board, fields = answer
        seats = dict(zip(fields[::2], fields[1::2], strict=True))
        return CellRecord(cell, int(version), packing.read_seats(board, seats))

    async def read_changes(self, cell: int, since: int) -> r.CellChanges | None:
        answer = await self._call(cell, "read_changes", _SINCE.pack(since))
        if not answer:
            return None
        version, whole, seats, free = answer
        return r.CellChanges(
            cell,
            int(version),
            tuple(
                packing.read_seat(*seats[position : position + 4])
                for position in range(0, len(seats), 4)
            ),
            tuple(free),
            bool(whole),
        )

    async def cell_version(self, cell: int) -> int | None:
        tag = self._tag(cell)
        board = self._cell_keys(cell)[0]
        header = await self._server.plain(tag, "GETRANGE", board, 0, 7, name="cell_version")
        return int(Struct(">d").unpack(header)[0]) if header else None

    async def count(self, cell: int) -> dict[str, int]:
        """How many things of each kind a cell keeps, for tests and for operators."""
        tag, key = self._tag(cell), self._cell_keys(cell)[1]
        now_ms, record, entries, waiters = await asyncio.gather(
            self._server.now_ms(tag),
            self.read_cell(cell),
            self._entries(cell),
            self._server.plain(tag, "HGET", key, "w"),
        )
        graves = [
            entry.due_at_ms if entry.state == packing.TOMBSTONE else entry.grave_until_ms
            for entry in entries
        ]
        return {
            "seats": len(record.seats) if record is not None else 0,
            "held": sum(entry.holds_slot for entry in entries),
            "finished": sum(entry.state == packing.FINISHED for entry in entries),
            "tombstones": sum(until_ms > now_ms for until_ms in graves),
            "waiting": packing.count_waiters(waiters or b"", now_ms),
        }

    # --- inside ---------------------------------------------------------------------------------

    async def _lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool, remove: bool
    ) -> NodeLost | Stale | NotSeated | Cold:
        def lose(how: int, others: Sequence[str]) -> Future[Answer]:
            terms = _LOSE.pack(sender.epoch, only_if_silent, remove, how) + names(sender.node_id)
            return self._call(cell, "lose", terms, _LOST, *others)

        answer = await self._settle_seat(cell, sender.node_id, {}, lose)
        return _refusal(cell, answer, sender.node_id) or NodeLost(_running(answer[1]))

    async def _settle_seat(
        self,
        cell: int,
        node_id: NodeId,
        listed: dict[AttemptId, RunningJob],
        operation: Callable[[int, Sequence[str]], Future[Answer]],
    ) -> Answer:
        """Ask for an operation on all that a seat holds, until all of it is named."""
        answer = await operation(_ONLY_ALL, ())
        for _ in range(_LOOKS_FROM_OUTSIDE):
            if answer[0] != b"more":
                return answer
            answer = await operation(_ONLY_ALL, await self._others(cell, node_id, listed))
        return await operation(_LOOK, ()) if answer[0] == b"more" else answer

    def _ask(self, ask: r.SlotAsk) -> bytes:
        chance = self._server.random.getrandbits(16)
        return _ASK.pack(
            ask.ack_ms,
            ask.lease_ms,
            ask.run_ms,
            ask.job_class is JobClass.BATCH,
            min(ask.preemptions, 255),
            _STRATEGIES[ask.strategy],
            chance & 255,
            chance >> 8,
            _near(ask).bit_count() % 256,
            ask.headroom,
        ) + name(ask.attempt_id)

    def _places(self, ask: r.SlotAsk) -> tuple[bytes, bytes, bytes]:
        """The candidates, those to try blindly, and what the entry says of the job."""
        near = _near(ask)
        candidates = packing.candidate_bytes(ask.candidates & ~near)
        first = packing.candidate_bytes(near) if near else candidates
        if near:
            candidates = first + candidates
        draws = b""
        if ask.strategy is Strategy.RANDOM and ask.job_class is JobClass.LIVE and candidates:
            random = self._server.random.random
            width = len(first)
            draws = bytes([first[int(random() * width)] for _ in range(min(_BLIND_DRAWS, width))])
        return candidates, draws, name(ask.job_id) + kept_name(ask.instance_id) + NO_NAME

    async def _granted(self, cell: int, answer: bytes) -> r.Granted | r.Gone:
        index, epoch, node, at_ms, stamp = _GRANTED.unpack(answer)
        seated = (stamp, epoch, node)
        known = self._owners.get((cell, index))
        if known is not None and known[0] == seated:
            return r.Granted(cell, index, *known[1], int(at_ms))
        owner = await self._owner(cell, index, node, epoch)
        if owner is None:
            # The node took its seat anew this moment: the attempt was its older connection's.
            return r.Gone()
        if stamp >= 0:
            self._owners[cell, index] = (seated, owner)
        return r.Granted(cell, index, *owner, int(at_ms))

    async def _owner(
        self, cell: int, index: int, node: bytes, epoch: int
    ) -> tuple[NodeId, Owner] | None:
        """Who sits on a seat, if it is still the one that the cell spoke of."""
        tag = self._tag(cell)
        packed = await self._server.plain(tag, "HGET", self._cell_keys(cell)[2], b"i%d" % index)
        if not packed:
            return None
        node_id, owner = packing.read_owner(packed)
        if packing.node_digest(node_id) != node or owner.epoch != epoch:
            return None
        return node_id, owner

    async def _owner_of_node(self, cell: int, sender: Sender) -> Owner | None:
        record = await self.read_cell(cell)
        seats = record.seats if record is not None else ()
        return next((seat.owner for seat in seats if seat.node_id == sender.node_id), None)

    async def _entries(self, cell: int, node: bytes | None = None) -> list[packing.PackedAttempt]:
        """All attempts of a cell, or those of one node, page by page."""
        tag, key = self._tag(cell), self._cell_keys(cell)[1]
        cursor = b"0"
        found: dict[bytes, bytes] = {}
        while True:
            cursor, fields = await self._server.plain(tag, "HSCAN", key, cursor, "COUNT", _PAGE)
            found.update(zip(fields[::2], fields[1::2], strict=True))
            if cursor == b"0":
                break
        found.pop(b"w", None)
        entries = []
        for field, packed in found.items():
            if node is None or packing.is_node(packed, node):
                try:
                    entries.append(packing.read_entry(field, packed))
                except UNREADABLE:
                    unreadable(key, field)
        return entries

    async def _others(
        self, cell: int, node_id: NodeId, listed: dict[AttemptId, RunningJob]
    ) -> list[str]:
        """What the node's seat holds beside what the node lists, the oldest first."""
        found = [
            entry
            for entry in await self._entries(cell, packing.node_digest(node_id))
            if entry.holds_slot and entry.attempt_id not in listed
        ]
        return [entry.attempt_id for entry in sorted(found, key=lambda each: each.dispatched_ms)]

    async def _stored(
        self, cell: int, field: bytes, packed: bytes, owner: bytes
    ) -> r.StoredAttempt | None:
        entry = packing.read_entry(field, packed)
        stored = packing.stored_attempt(cell, entry, owner)
        return None if stored is None else await self._with_result(cell, entry, stored)

    async def _with_result(
        self, cell: int, entry: packing.PackedAttempt, stored: r.StoredAttempt
    ) -> r.StoredAttempt:
        if not entry.result_elsewhere:
            return stored
        tag = self._tag(cell)
        for _ in range(2):
            # One that is missing is read again: it may be on its way.
            packed = await self._server.plain(tag, "GET", tag.key(f"o:{entry.attempt_id}"))
            if packed is not None:
                return msgspec.structs.replace(stored, output=read_result(packed))
        return stored

    def _call(self, cell: int, name: str, terms: bytes, *arguments: bytes | str) -> Future[Answer]:
        return self._server.call(self._tag(cell), name, self._cell_keys(cell), terms, *arguments)

    def _tag(self, cell: int) -> FunctionTag:
        tag = self._tags.get(cell)
        if tag is None:
            tag = self._tags[cell] = FunctionTag(self._server.key_prefix, f"c{cell}", CELL)
            self._keys[cell] = (tag.key("board"), tag.key("a"), tag.key("seats"))
        return tag

    def _cell_keys(self, cell: int) -> tuple[bytes, ...]:
        self._tag(cell)
        return self._keys[cell]


def _finish_terms(attempt_id: AttemptId, sender: Sender, finish: r.Finish, kept: int) -> bytes:
    return b"".join(
        (
            _SENDER.pack(sender.epoch, packing.node_digest(sender.node_id)),
            name(attempt_id),
            _FINISH.pack(finish.due_ms, finish.outcome is Outcome.SUCCESS, kept),
        )
    )


def _finished(
    cell: int,
    attempt_id: AttemptId,
    then: AfterFree,
    answer: Answer,
    error: DragomanError | None,
) -> None:
    if error is not None:
        then(None, error)
    else:
        then(_end_of(cell, attempt_id, answer), None)


def _end_of(
    cell: int, attempt_id: AttemptId, answer: Answer
) -> r.FreedSlot | r.LateFinish | Stale | Cold:
    if type(answer) is bytes:
        *times, slots = _FREED.unpack_from(answer)
        job_id = JobId(answer[_FREED.size :].decode())
        return r.FreedSlot(job_id, Times(*map(int, times)), slots, (), None)
    match answer[0]:
        case b"freed":
            return _freed(answer)
        case b"late":
            return r.LateFinish(_freed(answer))
        case b"unstored":
            raise unstored(f"the result of attempt {attempt_id}")
    return _stale_or_cold(cell, answer)


def _ignore(done: Future[Answer]) -> None:
    """The next sweep does it again."""
    if not done.cancelled():
        done.exception()


def _instances(woken: Sequence[bytes]) -> tuple[InstanceId, ...]:
    return tuple(InstanceId(each.decode()) for each in woken)


def _running(flat: Sequence[bytes]) -> tuple[RunningJob, ...]:
    return tuple(
        RunningJob(JobId(flat[at].decode()), AttemptId(flat[at + 1].decode()))
        for at in range(0, len(flat), 2)
    )


def _inherited(flat: Sequence[bytes]) -> tuple[Inherited, ...]:
    return tuple(Inherited(each.job_id, each.attempt_id) for each in _running(flat))


def _near(ask: r.SlotAsk) -> int:
    """The candidates that come first; none, where all of them do."""
    near = ask.near & ask.candidates
    return 0 if near == ask.candidates else near


def _freed(answer: Answer) -> r.FreedSlot:
    _, job_id, dispatched, accepted, running, finished, slots, inherited, woken = answer
    return r.FreedSlot(
        JobId(job_id.decode()),
        Times(dispatched, accepted, running, finished),
        slots,
        _inherited(inherited) if inherited else (),
        InstanceId(woken[0].decode()) if woken else None,
    )


def _placed(answer: Answer, listed: Sequence[RunningJob]) -> Placed:
    _, index, version, drained, passed, lost, cancelling, unknown, slots, heirs, woken = answer
    return Placed(
        index=index,
        version=int(version),
        drained=bool(drained),
        passed=_running(passed),
        lost=_running(lost),
        cancelling=_running(cancelling),
        unknown=tuple(listed[position] for position in unknown),
        freed=Freed(slots, _inherited(heirs), _instances(woken)),
    )


def _beat(answer: Answer, listed: Sequence[RunningJob]) -> Beat:
    _, lost, unknown, cancelling, slots, heirs, woken = answer
    return Beat(
        _running(lost),
        tuple(listed[position] for position in unknown),
        _running(cancelling),
        Freed(slots, _inherited(heirs), _instances(woken)),
    )


def _stale_or_cold(cell: int, answer: Answer) -> Stale | Cold:
    if answer[0] == b"stale":
        return Stale(StaleReason(answer[1].decode()))
    return Cold(cell)


def _refusal(cell: int, answer: Answer, node_id: NodeId) -> Stale | NotSeated | Cold | None:
    """The answers that say that nothing was done; None for any other."""
    match answer[0]:
        case b"cold":
            return Cold(cell)
        case b"not_seated":
            return NotSeated(node_id)
        case b"stale":
            return Stale(StaleReason(answer[1].decode()))
    return None
