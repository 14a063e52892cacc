"""Nodes come, go and come back; only their newest connection speaks for them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from tests.contract.ledger.bench import LEASE_MS, Bench

from dragoman.ids import NodeId
from dragoman.live.ledger import (
    CancelWon,
    CellFull,
    Cold,
    DirectoryFull,
    Done,
    Full,
    HolderConflict,
    NodeLost,
    NotSeated,
    Owner,
    Placement,
    Registered,
    Stale,
    StaleReason,
)
from dragoman.live.protocol import AttemptState

MakeBench = Callable[..., Bench]


def register(bench: Bench, name: str, **more: object) -> Registered:
    answer = bench(bench.ledger.register(bench.registration(name, **more)))
    assert isinstance(answer, Registered)
    return answer


# --- the directory ------------------------------------------------------------------------------


def test_a_node_is_placed_in_the_lowest_cell_with_room(make_bench: MakeBench) -> None:
    bench = make_bench(cell_size=2)
    cells = [register(bench, f"n-{number}").cell for number in range(5)]
    assert cells == [0, 0, 1, 1, 2]
    assert bench(bench.ledger.cells()) == (0, 1, 2)
    assert set(bench(bench.ledger.members(1))) == {"n-2", "n-3"}


def test_a_forgotten_node_leaves_room_that_is_filled_first(make_bench: MakeBench) -> None:
    bench = make_bench(cell_size=2)
    owners = [register(bench, f"n-{number}").owner for number in range(6)]
    for number in (2, 3):
        assert bench(bench.ledger.forget(NodeId(f"n-{number}"), owners[number].epoch)) == Done()
    assert bench(bench.ledger.cells()) == (0, 2), "no hole hides the cells after it"
    assert [register(bench, f"m-{number}").cell for number in range(3)] == [1, 1, 3]


def test_when_every_cell_is_full_registration_is_refused(make_bench: MakeBench) -> None:
    bench = make_bench(cell_size=1, max_cells=2)
    first = register(bench, "n-0")
    register(bench, "n-1")
    full = bench(bench.ledger.register(bench.registration("n-2")))
    assert full == DirectoryFull()
    assert bench(bench.ledger.lookup(NodeId("n-2"))) is None
    bench(bench.ledger.forget(NodeId("n-0"), first.owner.epoch))
    assert register(bench, "n-2").cell == 0


def test_a_node_comes_back_to_its_cell_with_a_higher_epoch(bench: Bench) -> None:
    first = register(bench, "n-1")
    second = register(bench, "n-1")
    assert second.cell == first.cell
    assert second.owner.epoch > first.owner.epoch
    assert second.previous == first.owner
    entry = bench(bench.ledger.lookup(NodeId("n-1")))
    assert entry is not None
    assert entry.owner == second.owner


def test_registering_again_over_the_same_connection_answers_the_same(bench: Bench) -> None:
    registration = bench.registration("n-1")
    first, second = (bench(bench.ledger.register(registration)) for _ in range(2))
    assert isinstance(first, Registered)
    assert isinstance(second, Registered)
    assert (first.cell, first.owner) == (second.cell, second.owner)


def test_a_directory_that_lost_its_memory_does_not_count_backwards(bench: Bench) -> None:
    assert register(bench, "n-1", at_least_epoch=41).owner.epoch == 42
    assert register(bench, "n-1", at_least_epoch=7).owner.epoch == 43


def test_registrations_at_the_same_time_get_epochs_of_their_own(bench: Bench) -> None:
    answers = bench.together(*(bench.ledger.register(bench.registration("n-1")) for _ in range(10)))
    epochs = {answer.owner.epoch for answer in answers if isinstance(answer, Registered)}
    assert len(epochs) == 10


def test_a_node_id_belongs_to_the_holder_that_first_used_it(bench: Bench) -> None:
    register(bench, "n-1", holder="key-a", exclusive=True)
    theft = bench.registration("n-1", holder="key-b", exclusive=True)
    assert bench(bench.ledger.register(theft)) == HolderConflict()
    register(bench, "n-1", holder="key-a", exclusive=True)
    entry = bench(bench.ledger.lookup(NodeId("n-1")))
    assert entry is not None
    assert entry.holder == "key-a"


def test_a_node_id_passes_from_the_holder_that_was_known_and_from_no_other(bench: Bench) -> None:
    register(bench, "n-1", holder="key-a:1", exclusive=True)
    register(bench, "n-1", holder="key-a:2", known_holder="key-a:1", exclusive=True)
    late = bench.registration("n-1", holder="key-a:3", known_holder="key-a:1", exclusive=True)
    assert bench(bench.ledger.register(late)) == HolderConflict()
    entry = bench(bench.ledger.lookup(NodeId("n-1")))
    assert entry is not None
    assert entry.holder == "key-a:2"


def test_a_connection_that_registers_again_may_change_the_holder(bench: Bench) -> None:
    first = bench.registration("n-1", holder="key-a:1", exclusive=True)
    bench(bench.ledger.register(first))
    again = msgspec.structs.replace(first, holder="key-a:2", known_holder="key-a:1")
    bench(bench.ledger.register(again))
    entry = bench(bench.ledger.lookup(NodeId("n-1")))
    assert entry is not None
    assert entry.holder == "key-a:2"


def test_in_open_mode_the_newer_connection_supersedes(bench: Bench) -> None:
    first = register(bench, "n-1", holder="token-a")
    second = register(bench, "n-1", holder="token-b")
    assert second.previous == first.owner


def test_a_cell_that_turned_out_full_is_left_for_another(make_bench: MakeBench) -> None:
    bench = make_bench(cell_size=1)
    squatter = bench.join("n-0")
    bench(bench.ledger.forget(squatter.node_id, squatter.owner.epoch))
    registration = bench.registration("n-1")
    registered = bench(bench.ledger.register(registration))
    assert isinstance(registered, Registered)
    placement = Placement(NodeId("n-1"), registered.owner, 1, LEASE_MS)
    assert bench(bench.ledger.seat(registered.cell, placement)) == CellFull()
    again = bench(
        bench.ledger.register(
            type(registration)(
                registration.node_id,
                registration.instance_id,
                registration.connection_id,
                not_cells=(registered.cell,),
            )
        )
    )
    assert isinstance(again, Registered)
    assert again.cell != registered.cell
    assert bench(bench.ledger.members(registered.cell)) == ()


def test_only_the_newest_connection_is_forgotten(bench: Bench) -> None:
    old = register(bench, "n-1")
    register(bench, "n-1")
    assert isinstance(bench(bench.ledger.forget(NodeId("n-1"), old.owner.epoch)), Stale)
    assert bench(bench.ledger.lookup(NodeId("n-1"))) is not None
    assert bench(bench.ledger.forget(NodeId("n-9"), 1)) == Done()


# --- seats --------------------------------------------------------------------------------------


def test_listed_attempts_pass_to_the_new_connection_and_unlisted_ones_are_lost(
    bench: Bench,
) -> None:
    old = bench.join("n-1", slots=3)
    listed, acked, told = (bench.dispatch(old) for _ in range(3))
    bench.ack(acked)
    new = bench.join("n-1", slots=3, running=(listed.running,))
    assert new.placed.passed == (listed.running,)
    assert set(new.placed.lost) == {acked.running, told.running}
    assert new.placed.freed.slots == 2
    assert bench.held(new) == 1
    record = bench.read(listed)
    assert record is not None
    assert (record.owner, record.state) == (new.owner, AttemptState.ACCEPTED)
    for lost in (acked, told):
        assert bench.state(lost) is AttemptState.FINISHED


def test_after_a_reconnect_only_the_new_connection_may_answer(bench: Bench) -> None:
    old = bench.join("n-1")
    attempt = bench.dispatch(old)
    new = bench.join("n-1", running=(attempt.running,))
    assert bench.finish(attempt) == Stale(StaleReason.OLD_ATTEMPT)
    assert type(bench.finish(attempt, sender=new.sender)).__name__ == "Finished"


def test_cancelled_attempts_are_settled_by_a_reconnect_too(bench: Bench) -> None:
    old = bench.join("n-1", slots=2)
    listed, unlisted = bench.dispatch(old), bench.dispatch(old)
    for attempt in (listed, unlisted):
        assert isinstance(bench.cancel(attempt), CancelWon)
    new = bench.join("n-1", slots=2, running=(listed.running,))
    assert new.placed.cancelling == (listed.running,)
    assert new.placed.lost == ()
    assert bench.held(new) == 1
    bench.beat(new)
    assert bench.held(new) == 0


def test_what_a_joining_node_runs_and_no_job_knows_is_reported(bench: Bench) -> None:
    first = bench.join("n-0")
    attempt = bench.dispatch(first)
    bench(bench.ledger.remove(first.cell, first.sender))
    bench(bench.ledger.settle(first.cell, [attempt.attempt_id]))
    again = bench.join("n-0", running=(attempt.running,))
    assert again.placed.unknown == (attempt.running,)


def test_placing_again_settles_nothing_twice(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    again = Placement(node.node_id, node.owner, 2, LEASE_MS)
    for _ in range(2):
        answer = bench(bench.ledger.seat(node.cell, again))
        assert getattr(answer, "index", None) == node.index
    assert bench.state(attempt) is AttemptState.DISPATCHED
    assert bench.held(node) == 1


def test_an_older_connection_does_not_take_the_seat_back(bench: Bench) -> None:
    old = bench.join("n-1")
    new = bench.join("n-1")
    late = Placement(old.node_id, old.owner, 9, LEASE_MS)
    assert isinstance(bench(bench.ledger.seat(old.cell, late)), Stale)
    assert (bench.seat(new).owner, bench.seat(new).slots) == (new.owner, 1)


def test_clean_up_of_an_old_connection_never_touches_a_newer_one(bench: Bench) -> None:
    old = bench.join("n-1")
    attempt = bench.dispatch(old)
    new = bench.join("n-1", running=(attempt.running,))
    ledger = bench.ledger
    before = bench.seat(new)
    for clean_up in (
        ledger.disconnect(old.cell, old.sender),
        ledger.lose(old.cell, old.sender),
        ledger.remove(old.cell, old.sender),
        ledger.forget(old.node_id, old.owner.epoch),
    ):
        assert isinstance(bench(clean_up), Stale)
    assert bench.seat(new) == before
    assert bench.held(new) == 1


def test_a_lost_socket_stops_new_slots_and_keeps_the_old_ones(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    for _ in range(2):
        assert bench(bench.ledger.disconnect(node.cell, node.sender)) == Done()
    assert not bench.seat(node).online
    assert bench(bench.ledger.reserve(bench.ask(bench.new_job(), node))) == Full()
    assert bench.held(node) == 1
    back = bench.join("n-1", slots=2, running=(attempt.running,))
    assert back.placed.passed == (attempt.running,)
    assert bench.seat(back).online
    bench.dispatch(back)


def test_a_node_that_did_not_come_back_loses_everything_once(bench: Bench) -> None:
    node = bench.join("n-1", slots=3)
    attempts = [bench.dispatch(node) for _ in range(2)]
    bench(bench.ledger.disconnect(node.cell, node.sender))
    first, again = (bench(bench.ledger.lose(node.cell, node.sender)) for _ in range(2))
    assert isinstance(first, NodeLost)
    assert set(first.lost) == {attempt.running for attempt in attempts}
    assert again == NodeLost()
    assert bench.held(node) == 0
    for attempt in attempts:
        assert bench.state(attempt) is AttemptState.FINISHED


def test_a_node_whose_heartbeats_come_is_not_lost_for_silence(bench: Bench) -> None:
    node = bench.join("n-1")
    bench.dispatch(node)
    bench.advance(44)
    bench.beat(node)
    bench.advance(44)
    silent = bench.ledger.lose(node.cell, node.sender, only_if_silent=True)
    assert isinstance(bench(silent), Stale)
    bench.advance(2)
    silent = bench.ledger.lose(node.cell, node.sender, only_if_silent=True)
    assert isinstance(bench(silent), NodeLost)


def test_a_node_given_up_while_its_connection_lived_is_placed_again_before_it_gets_slots(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    bench(bench.ledger.lose(node.cell, node.sender))
    assert bench.try_beat(node) == NotSeated(node.node_id)
    placement = Placement(node.node_id, node.owner, 1, LEASE_MS)
    bench(bench.ledger.seat(node.cell, placement))
    bench.beat(node)
    bench.dispatch(node)


def test_a_removed_node_gives_up_its_seat_to_the_next(bench: Bench) -> None:
    first, second = bench.join("n-1"), bench.join("n-2")
    gone = bench(bench.ledger.remove(first.cell, first.sender))
    assert isinstance(gone, NodeLost)
    assert isinstance(bench(bench.ledger.remove(first.cell, first.sender)), NotSeated)
    bench(bench.ledger.forget(first.node_id, first.owner.epoch))
    third = bench.join("n-3")
    assert third.index == first.index
    assert bench.seat(second).index == second.index
    bench(bench.ledger.remove(third.cell, third.sender))
    bench(bench.ledger.remove(second.cell, second.sender))
    assert bench(bench.ledger.remove(second.cell, second.sender)) in (
        Cold(second.cell),
        NotSeated(second.node_id),
    )


def test_an_operators_drain_outlives_a_reconnect_until_it_is_lifted(bench: Bench) -> None:
    node = bench.join("n-1")
    for _ in range(2):
        assert bench(bench.ledger.set_drained(node.cell, node.node_id, True)) == Done()
    assert bench(bench.ledger.reserve(bench.ask(bench.new_job(), node))) == Full()
    back = bench.join("n-1")
    assert back.placed.drained
    assert bench(bench.ledger.reserve(bench.ask(bench.new_job(), back))) == Full()
    bench(bench.ledger.set_drained(back.cell, back.node_id, False))
    bench.dispatch(back)


def test_draining_needs_a_node(bench: Bench) -> None:
    node = bench.join("n-1")
    stranger = NodeId("n-9")
    assert bench(bench.ledger.set_drained(node.cell, stranger, True)) == NotSeated(stranger)
    assert bench(bench.ledger.set_drained(77, stranger, True)) == Cold(77)


def test_a_seat_shows_who_owns_it(bench: Bench) -> None:
    node = bench.join("n-1", slots=4)
    seat = bench.seat(node)
    assert isinstance(seat.owner, Owner)
    assert (seat.owner, seat.slots, seat.held, seat.online) == (node.owner, 4, 0, True)
    assert not seat.drained
