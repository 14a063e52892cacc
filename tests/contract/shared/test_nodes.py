"""Nodes take their seats, keep them by heartbeats, and leave them."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.shared.bench import GRACE_MS, HERE, LEASE_MS, TOMBSTONE_MS, Bench, Node

from dragoman.ids import NodeId
from dragoman.live.ledger import (
    Beat,
    CellFull,
    Cold,
    DirectoryFull,
    Done,
    Heartbeat,
    HolderConflict,
    NodeLost,
    NodeRegistered,
    NotSeated,
    Owner,
    Placement,
    Registration,
    Sender,
    Stale,
    StaleReason,
)
from dragoman.live.protocol import AttemptState, Outcome
from dragoman.live.shared import records as r

COLD = 7
OLD = Stale(StaleReason.OLD_ATTEMPT)


def registration(
    bench: Bench, name: str, holder: str = "", exclusive: bool = False
) -> Registration:
    return Registration(
        NodeId(name), HERE, bench.connection_id(), holder=holder, exclusive=exclusive
    )


def older(node: Node) -> Sender:
    return Sender(node.node_id, node.owner.epoch - 1)


# --- the directory ------------------------------------------------------------------------------


def test_a_registered_node_is_found_in_its_cell(bench: Bench) -> None:
    node = bench.join("n-1")
    entry = bench(bench.ledger.lookup(node.node_id))
    assert entry is not None
    assert (entry.cell, entry.owner) == (node.cell, node.owner)
    assert bench(bench.ledger.members(node.cell)) == (node.node_id,)
    assert bench(bench.ledger.cells()) == (node.cell,)


def test_a_registration_asked_again_answers_the_same(bench: Bench) -> None:
    asked = registration(bench, "n-1")
    first = bench(bench.ledger.register(asked))
    assert isinstance(first, NodeRegistered)
    assert bench(bench.ledger.register(asked)) == first


def test_a_newer_connection_has_a_higher_epoch(bench: Bench) -> None:
    first, second = bench.join("n-1"), bench.join("n-1")
    assert second.owner.epoch > first.owner.epoch
    assert bench(bench.ledger.forget(first.node_id, first.owner.epoch)) == OLD
    for _ in range(2):
        assert bench(bench.ledger.forget(second.node_id, second.owner.epoch)) == Done()
    assert bench(bench.ledger.lookup(first.node_id)) is None


def test_a_name_belongs_to_its_holder(bench: Bench) -> None:
    bench(bench.ledger.register(registration(bench, "n-1", "key-1")))
    other = registration(bench, "n-1", "key-2", exclusive=True)
    assert bench(bench.ledger.register(other)) == HolderConflict()


def test_a_full_directory_refuses(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(cell_size=1, max_cells=1)
    bench.join("n-1")
    assert bench(bench.ledger.register(registration(bench, "n-2"))) == DirectoryFull()


def test_a_full_cell_has_no_seat(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(cell_size=1)
    node = bench.join("n-1")
    owner = Owner(HERE, bench.connection_id(), 1)
    placement = Placement(NodeId("n-2"), owner, 1, LEASE_MS)
    assert bench(bench.ledger.seat(node.cell, placement)) == CellFull()


# --- seats --------------------------------------------------------------------------------------


def test_a_seat_shows_what_others_must_know(bench: Bench) -> None:
    node = bench.join("n-1", slots=3)
    bench.dispatch(node)
    seat = bench.seat(node)
    assert (seat.node_id, seat.index, seat.slots, seat.held) == (node.node_id, node.index, 3, 1)
    assert (seat.owner, seat.online, seat.drained) == (node.owner, True, False)


def test_the_version_moves_with_facts_and_not_with_slots(bench: Bench) -> None:
    node = bench.join("n-1")
    ledger = bench.ledger
    version = bench(ledger.cell_version(node.cell))
    bench.finish(bench.dispatch(node))
    bench.beat(node)
    assert bench(ledger.cell_version(node.cell)) == version
    assert bench(ledger.amend(node.cell, node.sender, facts=b"facts")) == Done()
    assert bench(ledger.cell_version(node.cell)) != version
    assert bench.seat(node).facts == b"facts"


def test_a_node_that_connects_again_keeps_what_it_lists_and_loses_the_rest(bench: Bench) -> None:
    node = bench.join("n-1", slots=3)
    kept, lost, cancelled = (bench.dispatch(node) for _ in range(3))
    bench.cancel(cancelled)
    unknown = bench.dispatch(bench.join("n-2"))
    again = bench.join("n-1", 3, (kept.running, cancelled.running, unknown.running))
    placed = again.placed
    assert (placed.passed, placed.lost) == ((kept.running,), (lost.running,))
    assert (placed.cancelling, placed.unknown) == ((cancelled.running,), (unknown.running,))
    assert placed.freed.slots == 1
    assert bench.finish(kept) == OLD
    stored = bench.look(kept)
    assert isinstance(stored, r.StoredAttempt)
    assert (stored.owner, stored.state) == (again.owner, AttemptState.ACCEPTED)


def test_a_placement_of_an_older_connection_changes_nothing(bench: Bench) -> None:
    first = bench.join("n-1")
    second = bench.join("n-1")
    placement = Placement(first.node_id, first.owner, 9, LEASE_MS)
    assert bench(bench.ledger.seat(first.cell, placement)) == OLD
    assert (bench.seat(second).owner, bench.seat(second).slots) == (second.owner, 1)


def test_a_heartbeat_compares_the_two_lists(bench: Bench) -> None:
    node = bench.join("n-1", slots=3)
    listed, lost, dispatched = (bench.dispatch(node) for _ in range(3))
    bench.accept(lost)
    stray = bench.dispatch(bench.join("n-2"))
    beat = bench.beat(node, listed.running, stray.running)
    assert (beat.lost, beat.unknown) == ((lost.running,), (stray.running,))
    assert beat.freed.slots == 1
    assert bench.held(node) == 2
    stored = bench.look(lost)
    assert isinstance(stored, r.StoredAttempt)
    assert (stored.state, stored.outcome) == (AttemptState.FINISHED, Outcome.FAILED)
    assert bench.finish(lost) == Stale(StaleReason.LATE)
    assert isinstance(bench.look(dispatched), r.StoredAttempt)
    assert bench.beat(node, listed.running, stray.running).lost == ()


def test_a_heartbeat_that_is_older_than_the_acknowledgement_loses_nothing(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.accept(attempt, number=5)
    assert bench.beat(node, number=4).lost == ()
    assert bench.beat(node, number=5).lost == (attempt.running,)


def test_a_heartbeat_renews_the_seat_and_the_lease(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    bench.accept(attempt)
    before = bench.look(attempt)
    bench.advance(5)
    bench.beat(node, attempt.running)
    after = bench.look(attempt)
    assert isinstance(before, r.StoredAttempt)
    assert isinstance(after, r.StoredAttempt)
    assert after.due_at_ms >= before.due_at_ms
    assert after.run_until_ms == before.run_until_ms
    bench.advance(LEASE_MS / 1000 - 1)
    assert isinstance(bench.try_reserve(node), r.Granted)


def test_an_older_connection_changes_no_seat(bench: Bench) -> None:
    node = bench.join("n-1")
    node = bench.join("n-1")
    ledger, sender = bench.ledger, older(node)
    seat = bench.seat(node)
    assert bench(ledger.beat(node.cell, Heartbeat(node.node_id, sender.epoch, 1))) == OLD
    assert bench(ledger.amend(node.cell, sender, slots=9)) == OLD
    assert bench(ledger.disconnect(node.cell, sender)) == OLD
    assert bench(ledger.lose(node.cell, sender)) == OLD
    assert bench(ledger.remove(node.cell, sender)) == OLD
    assert bench.seat(node) == seat


def test_a_node_without_a_seat_is_told(bench: Bench) -> None:
    node = bench.join("n-1")
    sender = Sender(NodeId("n-2"), 1)
    ledger, unseated = bench.ledger, NotSeated(sender.node_id)
    assert bench(ledger.beat(node.cell, Heartbeat(sender.node_id, 1, 1))) == unseated
    assert bench(ledger.amend(node.cell, sender, slots=9)) == unseated
    assert bench(ledger.disconnect(node.cell, sender)) == unseated
    assert bench(ledger.lose(node.cell, sender)) == unseated
    assert bench(ledger.remove(node.cell, sender)) == unseated
    assert bench(ledger.set_drained(node.cell, sender.node_id, True)) == unseated


def test_a_cold_cell_is_told(bench: Bench) -> None:
    sender = Sender(NodeId("n-1"), 1)
    ledger, cold = bench.ledger, Cold(COLD)
    assert bench(ledger.beat(COLD, Heartbeat(sender.node_id, 1, 1))) == cold
    assert bench(ledger.amend(COLD, sender, slots=9)) == cold
    assert bench(ledger.disconnect(COLD, sender)) == cold
    assert bench(ledger.lose(COLD, sender)) == cold
    assert bench(ledger.remove(COLD, sender)) == cold
    assert bench(ledger.set_drained(COLD, sender.node_id, True)) == cold
    assert bench(ledger.read_cell(COLD)) is None
    assert bench(ledger.cell_version(COLD)) is None


def test_a_lost_node_ends_what_it_held(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt, cancelled = bench.dispatch(node), bench.dispatch(node)
    bench.cancel(cancelled)
    lost = bench(bench.ledger.lose(node.cell, node.sender))
    assert isinstance(lost, NodeLost)
    assert lost.lost == (attempt.running,)
    assert (bench.held(node), bench.seat(node).online) == (0, False)
    again = bench(bench.ledger.lose(node.cell, node.sender))
    assert again == NodeLost()
    assert bench.try_beat(node) == NotSeated(node.node_id)
    assert bench.finish(attempt) == Stale(StaleReason.LATE)


def test_a_node_whose_heartbeats_come_is_not_lost_for_its_silence(bench: Bench) -> None:
    node = bench.join("n-1")
    lose = bench.ledger.lose
    assert bench(lose(node.cell, node.sender, only_if_silent=True)) == OLD
    bench.advance(LEASE_MS / 1000 + 1)
    lost = bench(lose(node.cell, node.sender, only_if_silent=True))
    assert isinstance(lost, NodeLost)


def test_a_disconnected_node_keeps_what_it_holds(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    for _ in range(2):
        assert bench(bench.ledger.disconnect(node.cell, node.sender)) == Done()
    assert bench.try_reserve(node) == r.Full()
    assert bench.held(node) == 1
    assert isinstance(bench.finish(attempt), r.FreedSlot)


def test_a_drain_outlives_a_reconnect(bench: Bench) -> None:
    node = bench.join("n-1")
    bench(bench.ledger.set_drained(node.cell, node.node_id, True))
    again = bench.join("n-1")
    assert again.placed.drained
    assert bench.try_reserve(again) == r.Full()
    assert isinstance(bench.try_beat(again), Beat)


def test_nothing_is_left_of_a_node_in_the_end(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt, cancelled = bench.dispatch(node), bench.dispatch(node)
    bench.cancel(cancelled)
    assert isinstance(bench(bench.ledger.remove(node.cell, node.sender)), NodeLost)
    bench(bench.ledger.forget(node.node_id, node.owner.epoch))
    assert bench(bench.ledger.read_cell(node.cell)) is None
    stored = bench.look(attempt)
    assert isinstance(stored, r.StoredAttempt)
    bench(bench.ledger.settle(node.cell, [attempt.attempt_id]))
    bench.advance(TOMBSTONE_MS / 1000)
    assert not any(bench(bench.ledger.size()).values())


def test_a_heartbeat_from_before_the_acknowledgement_frees_no_cancelled_slot(bench: Bench) -> None:
    """Also when its node was asked to report: the report that was asked for comes later."""
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.accept(attempt, number=5)
    bench.cancel(attempt)
    bench(bench.ledger.mark_asked(node.cell, attempt.attempt_id, grace_ms=GRACE_MS))
    bench.beat(node, number=4)
    assert bench.held(node) == 1
    bench.beat(node, number=6)
    assert bench.held(node) == 0


def test_changes_are_of_the_seats_that_changed(bench: Bench) -> None:
    one, other, third = (bench.join(f"n-{number}") for number in range(3))
    record = bench(bench.ledger.read_cell(0))
    assert record is not None
    whole = bench(bench.ledger.read_changes(0, -1))
    assert whole == r.CellChanges(0, record.version, record.seats, (), whole=True)
    assert bench(bench.ledger.read_changes(0, record.version)) == r.CellChanges(0, record.version)
    bench(bench.ledger.amend(0, other.sender, facts=b"more"))
    bench(bench.ledger.remove(0, third.sender))
    changes = bench(bench.ledger.read_changes(0, record.version))
    assert changes is not None
    assert [seat.node_id for seat in changes.seats] == [other.node_id]
    assert changes.seats[0].facts == b"more"
    assert (changes.free, changes.whole) == ((third.index,), False)
    assert changes.version == bench(bench.ledger.cell_version(0))
    # A job is no change, and neither is a heartbeat.
    bench.dispatch(one)
    bench.beat(one)
    assert bench(bench.ledger.read_changes(0, changes.version)) == r.CellChanges(0, changes.version)


def test_changes_since_a_version_that_the_cell_never_had_are_all_seats(bench: Bench) -> None:
    node = bench.join("n-1")
    version = bench(bench.ledger.cell_version(0))
    assert version is not None
    for since in (0, version + 1):
        changes = bench(bench.ledger.read_changes(0, since))
        assert changes is not None
        assert [seat.node_id for seat in changes.seats] == [node.node_id]
    assert bench(bench.ledger.read_changes(7, 0)) is None
