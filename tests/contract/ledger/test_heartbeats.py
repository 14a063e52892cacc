"""What a node lists and what the ledger knows are compared attempt by attempt."""

from __future__ import annotations

from tests.contract.ledger.bench import LEASE_MS, RUN_MS, Bench, Node

from dragoman.ids import AttemptId, JobId
from dragoman.live.ledger import (
    Adopted,
    Adoption,
    Beat,
    Cold,
    Finished,
    Full,
    Heartbeat,
    LateFinish,
    NotSeated,
    Stale,
    StaleReason,
)
from dragoman.live.protocol import AttemptState, JobClass, Outcome, RunningJob


def ghost(number: int = 1) -> RunningJob:
    """Something a node runs that no cell has heard of."""
    return RunningJob(JobId(f"j-{number:026x}"), AttemptId(f"a-{number:024x}"))


def adopt(
    bench: Bench, node: Node, running: RunningJob, *, wanted: bool, number: int = 0
) -> object:
    adoption = Adoption(running, node.sender, JobClass.LIVE, wanted, LEASE_MS, RUN_MS, number)
    return bench(bench.ledger.adopt(node.cell, adoption))


def test_a_heartbeat_with_nothing_to_say_says_nothing(bench: Bench) -> None:
    assert bench.beat(bench.join("n-1")) == Beat()


def test_a_listed_attempt_is_as_good_as_acknowledged_and_its_lease_is_renewed(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.advance(2)
    assert bench.beat(node, attempt.running) == Beat()
    record = bench.read(attempt)
    assert record is not None
    assert (record.state, record.acked) == (AttemptState.ACCEPTED, True)
    for _ in range(5):
        bench.advance(5)
        bench.beat(node, attempt.running)
    later = bench.read(attempt)
    assert later is not None
    assert later.run_until_ms == record.run_until_ms
    assert later.due_at_ms == min(later.due_at_ms, later.run_until_ms)
    assert bench(bench.ledger.due_attempts([node.cell], 10)) == ()


def test_an_acknowledged_attempt_that_is_not_listed_is_lost(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.ack(attempt)
    answer = bench.beat(node)
    assert (answer.lost, answer.freed.slots) == ((attempt.running,), 1)
    record = bench.read(attempt)
    assert record is not None
    assert (record.state, record.outcome) == (AttemptState.FINISHED, Outcome.FAILED)
    assert record.error is not None
    assert record.error.code == "NODE_UNAVAILABLE"
    assert bench.held(node) == 0
    assert bench.beat(node) == Beat(), "it is lost once"


def test_a_heartbeat_that_is_carried_out_late_says_nothing_of_what_came_after_it(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.ack(attempt, number=2)
    assert bench.beat(node, number=1) == Beat()
    assert bench.state(attempt) is AttemptState.ACCEPTED
    assert bench.held(node) == 1
    assert bench.beat(node, number=3).lost == (attempt.running,)


def test_what_a_heartbeat_listed_first_an_earlier_one_cannot_lose(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.beat(node, attempt.running, number=3)
    bench.ack(attempt, number=2)
    assert bench.beat(node, number=1) == Beat()
    assert bench.held(node) == 1
    assert bench.beat(node, number=4).lost == (attempt.running,)


def test_a_cancelled_attempt_keeps_its_slot_through_a_heartbeat_from_before_its_ack(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.cancel(attempt)
    bench.ack(attempt, number=2)
    bench.beat(node, number=1)
    assert bench.held(node) == 1
    bench.beat(node, number=3)
    assert bench.held(node) == 0


def test_a_new_connection_counts_its_words_anew(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.ack(attempt, number=9)
    back = bench.join("n-1", running=(attempt.running,))
    assert bench.beat(back, attempt.running, number=1) == Beat()
    assert bench.beat(back, number=2).lost == (attempt.running,)


def test_an_adopted_attempt_is_not_lost_by_a_heartbeat_from_before(bench: Bench) -> None:
    node = bench.join("n-1")
    adopt(bench, node, ghost(), wanted=True, number=2)
    assert bench.beat(node, number=1) == Beat()
    assert bench.beat(node, number=3).lost == (ghost(),)


def test_an_attempt_not_yet_acknowledged_and_not_listed_is_kept(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    assert bench.beat(node) == Beat()
    assert bench.state(attempt) is AttemptState.DISPATCHED
    assert bench.held(node) == 1


def test_the_result_of_a_lost_attempt_comes_too_late(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.ack(attempt)
    bench.beat(node)
    assert bench.finish(attempt) == Stale(StaleReason.LATE)


def test_a_heartbeat_of_an_older_connection_is_ignored(bench: Bench) -> None:
    old = bench.join("n-1")
    attempt = bench.dispatch(old)
    bench.ack(attempt)
    new = bench.join("n-1", running=(attempt.running,))
    before = bench.read(attempt)
    assert isinstance(bench.try_beat(old), Stale)
    assert bench.read(attempt) == before
    assert bench.held(new) == 1


def test_a_heartbeat_never_seats_a_node(bench: Bench) -> None:
    node = bench.join("n-1")
    newer = Heartbeat(node.node_id, node.owner.epoch + 1, LEASE_MS)
    assert bench(bench.ledger.beat(node.cell, newer)) == NotSeated(node.node_id)
    assert bench(bench.ledger.beat(5, newer)) == Cold(5)
    bench(bench.ledger.remove(node.cell, node.sender))
    bench(bench.ledger.forget(node.node_id, node.owner.epoch))
    assert isinstance(bench.try_beat(node), NotSeated | Cold)
    assert set(bench(bench.ledger.size()).values()) == {0}


def test_a_listed_attempt_that_is_unknown_is_reported(bench: Bench) -> None:
    node = bench.join("n-1")
    known = bench.dispatch(node)
    assert bench.beat(node, known.running, ghost()).unknown == (ghost(),)
    assert bench.held(node) == 1


def test_an_adopted_attempt_goes_on_and_holds_a_slot_over_the_limit_if_need_be(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    bench.dispatch(node)
    for _ in range(2):
        assert adopt(bench, node, ghost(), wanted=True) == Adopted()
    assert bench.held(node) == 2
    assert bench(bench.ledger.reserve(bench.ask(bench.new_job(), node))) == Full()
    record = bench(bench.ledger.read_attempt(node.cell, ghost().attempt_id))
    assert record is not None
    assert record.state is AttemptState.RUNNING


def test_an_adopted_attempt_finishes_like_any_other(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench(bench.ledger.remove(node.cell, node.sender))
    bench(bench.ledger.settle(node.cell, [attempt.attempt_id]))
    back = bench.join("n-1")
    assert back.placed.unknown == ()
    adopt(bench, back, attempt.running, wanted=True)
    bench.beat(back, attempt.running)
    again = bench.finish(attempt, sender=back.sender)
    assert isinstance(again, Finished)
    assert bench.held(back) == 0


def test_an_unwanted_attempt_is_cancelled_and_holds_its_slot_until_it_is_gone(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    adopt(bench, node, ghost(), wanted=False)
    assert bench.held(node) == 1
    assert bench.beat(node, ghost()).cancelling == (ghost(),)
    assert bench.beat(node).freed.slots == 1
    assert bench.held(node) == 0


def test_the_result_of_an_unwanted_attempt_frees_its_slot_and_is_dropped(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.ack(attempt)
    bench.beat(node)
    adopt(bench, node, attempt.running, wanted=False)
    assert bench.held(node) == 1
    assert isinstance(bench.finish(attempt), LateFinish)
    assert bench.held(node) == 0


def test_an_attempt_that_was_given_up_is_not_adopted_as_wanted(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.ack(attempt)
    bench.beat(node)
    assert isinstance(adopt(bench, node, attempt.running, wanted=True), Stale)
    assert bench.held(node) == 0


def test_a_node_does_not_adopt_what_another_one_holds(bench: Bench) -> None:
    node, thief = bench.join("n-1"), bench.join("n-2")
    attempt = bench.dispatch(node)
    assert adopt(bench, thief, attempt.running, wanted=True) == Stale(StaleReason.WRONG_NODE)
    assert (bench.held(node), bench.held(thief)) == (1, 0)


def test_an_older_connection_adopts_nothing(bench: Bench) -> None:
    old = bench.join("n-1")
    new = bench.join("n-1")
    assert isinstance(adopt(bench, old, ghost(), wanted=True), Stale)
    assert bench.held(new) == 0
