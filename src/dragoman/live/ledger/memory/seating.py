"""Nodes take their seats in a cell, keep them by heartbeats, and leave them.

Every method is one atomic step: it is told the time and never awaits.
"""

from __future__ import annotations

from dragoman.ids import NodeId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Heartbeat, Placement, Sender
from dragoman.live.ledger.memory.seats import Seat
from dragoman.live.ledger.memory.slots import Freeing, Slots
from dragoman.live.ledger.records import CellRecord
from dragoman.live.protocol import AttemptState, RunningJob


class Seating:
    """Who sits in a cell. Each change that others must read of makes a new version."""

    def __init__(self, slots: Slots, version: int) -> None:
        self.version = version
        self._slots = slots
        self._seats = slots.seats
        self._by_index = slots.by_index

    def place(self, placement: Placement, now_ms: int) -> a.Placed | a.CellFull | a.Stale:
        seat = self._seats.get(placement.node_id)
        if seat is None:
            if None not in self._by_index:
                return a.CellFull()
            seat = Seat(
                node_id=placement.node_id,
                index=self._by_index.index(None),
                slots=placement.slots,
                owner=placement.owner,
                alive_until_ms=0,
            )
            self._seats[seat.node_id] = seat
            self._by_index[seat.index] = seat
        elif placement.owner.epoch < seat.owner.epoch:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        seat.owner, seat.slots, seat.facts = placement.owner, placement.slots, placement.facts
        seat.online = True
        seat.alive_until_ms = now_ms + placement.lease_ms
        self.version += 1
        listed = {running.attempt_id: running for running in placement.running}
        passed: list[RunningJob] = []
        lost: list[RunningJob] = []
        cancelling: list[RunningJob] = []
        freed = Freeing()
        for attempt in list(seat.held.values()):
            here = listed.pop(attempt.attempt_id, None) is not None
            if attempt.owner.epoch == seat.owner.epoch:
                continue
            if here:
                attempt.owner, attempt.acked = seat.owner, False
                self._slots.listed(attempt, 0, now_ms)
                (cancelling if attempt.state is AttemptState.CANCELLING else passed).append(
                    attempt.running
                )
            else:
                if attempt.state is not AttemptState.CANCELLING:
                    lost.append(attempt.running)
                self._slots.give_up(attempt, freed, now_ms)
        self._slots.refresh(seat, now_ms)
        return a.Placed(
            index=seat.index,
            version=self.version,
            drained=seat.drained,
            passed=tuple(passed),
            lost=tuple(lost),
            cancelling=tuple(cancelling),
            unknown=tuple(listed.values()),
            freed=freed.answer(),
        )

    def amend(
        self, sender: Sender, slots: int | None, facts: bytes | None, now_ms: int
    ) -> a.Done | a.Stale | a.NotSeated:
        seat = self._slots.seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        if slots is not None:
            seat.slots = slots
        if facts is not None:
            seat.facts = facts
        self.version += 1
        self._slots.refresh(seat, now_ms)
        return a.Done()

    def set_drained(self, node_id: NodeId, drained: bool, now_ms: int) -> a.Done | a.NotSeated:
        seat = self._seats.get(node_id)
        if seat is None:
            return a.NotSeated(node_id)
        seat.drained = drained
        self.version += 1
        self._slots.refresh(seat, now_ms)
        return a.Done()

    def disconnect(self, sender: Sender, now_ms: int) -> a.Done | a.Stale | a.NotSeated:
        seat = self._slots.seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        seat.online = False
        self.version += 1
        self._slots.refresh(seat, now_ms)
        return a.Done()

    def lose(
        self, sender: Sender, only_if_silent: bool, now_ms: int
    ) -> a.NodeLost | a.Stale | a.NotSeated:
        seat = self._slots.seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        if only_if_silent and seat.alive_until_ms > now_ms:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        seat.online = False
        self.version += 1
        self._slots.refresh(seat, now_ms)
        freed = Freeing()
        lost = []
        for attempt in list(seat.held.values()):
            if attempt.state is not AttemptState.CANCELLING:
                lost.append(attempt.running)
            self._slots.give_up(attempt, freed, now_ms)
        return a.NodeLost(tuple(lost), freed.answer())

    def remove(self, sender: Sender, now_ms: int) -> a.NodeLost | a.Stale | a.NotSeated:
        gone = self.lose(sender, False, now_ms)
        if isinstance(gone, a.NodeLost):
            seat = self._seats.pop(sender.node_id)
            self._by_index[seat.index] = None
            self._slots.not_full &= ~(1 << seat.index)
        return gone

    def beat(self, heartbeat: Heartbeat, now_ms: int) -> a.Beat | a.Stale | a.NotSeated:
        seat = self._slots.seat_of(Sender(heartbeat.node_id, heartbeat.epoch))
        if not isinstance(seat, Seat):
            return seat
        if not seat.online:
            # It was given up while its connection lived: it takes its seat again by being placed.
            return a.NotSeated(seat.node_id)
        seat.alive_until_ms = now_ms + heartbeat.lease_ms
        self._slots.refresh(seat, now_ms)
        if not seat.held and not heartbeat.running:
            return a.Beat()
        listed = {running.attempt_id: running for running in heartbeat.running}
        lost, cancelling = [], []
        freed = Freeing()
        for attempt in list(seat.held.values()):
            if listed.pop(attempt.attempt_id, None) is not None:
                self._slots.listed(attempt, heartbeat.number, now_ms)
                if attempt.state is AttemptState.CANCELLING:
                    cancelling.append(attempt.running)
            elif attempt.state is AttemptState.CANCELLING:
                if attempt.acked_before(heartbeat.number) or attempt.asked:
                    self._slots.give_up(attempt, freed, now_ms)
            elif attempt.acked_before(heartbeat.number):
                lost.append(attempt.running)
                self._slots.give_up(attempt, freed, now_ms)
        return a.Beat(tuple(lost), tuple(listed.values()), tuple(cancelling), freed.answer())

    def record(self) -> CellRecord:
        seats = sorted(self._seats.values(), key=lambda seat: seat.index)
        return CellRecord(self._slots.number, self.version, tuple(seat.record() for seat in seats))
