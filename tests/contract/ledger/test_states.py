"""An attempt goes forward only, ends once, and keeps its slot until its node lets go."""

from __future__ import annotations

import pytest
from tests.contract.ledger.bench import (
    ACK_MS,
    CANCELLED,
    DUE_MS,
    GRACE_MS,
    LEASE_MS,
    RUN_MS,
    Attempt,
    Bench,
    Node,
    failure,
    success,
)

from dragoman.live.ledger import (
    ORDER,
    TRANSITIONS,
    AlreadyEnded,
    CancelWon,
    Done,
    Finished,
    LateFinish,
    Moved,
    NodeLost,
    Repeat,
    Sender,
    Stale,
    StaleReason,
)
from dragoman.live.protocol import AttemptState, Outcome


def cancelled(bench: Bench, *, acked: bool) -> tuple[Node, Attempt]:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    if acked:
        bench.ack(attempt)
    assert isinstance(bench.cancel(attempt), CancelWon)
    return node, attempt


def test_the_table_of_states_only_goes_forward() -> None:
    for state, following in TRANSITIONS.items():
        assert all(ORDER[state] < ORDER[step] for step in following)
    assert set(TRANSITIONS) == set(ORDER) == set(AttemptState)


def test_an_attempt_is_accepted_runs_and_finishes(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    for state in (AttemptState.ACCEPTED, AttemptState.RUNNING):
        bench.advance(1)
        moved = bench.ack(attempt, state)
        assert isinstance(moved, Moved)
        assert moved.job_id == attempt.job_id
        assert bench.state(attempt) is state
    bench.advance(1)
    assert isinstance(bench.finish(attempt), Finished)
    record = bench.read(attempt)
    assert record is not None
    times = record.times
    assert 0 < times.dispatched_ms < times.accepted_ms < times.running_ms < times.finished_ms


def test_steps_may_be_skipped(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    started, finished = bench.dispatch(node), bench.dispatch(node)
    assert isinstance(bench.ack(started, AttemptState.RUNNING), Moved)
    assert isinstance(bench.finish(finished), Finished)


def test_a_step_back_and_a_repeat_change_nothing(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.ack(attempt, AttemptState.RUNNING)
    before = bench.read(attempt)
    bench.advance(1)
    for state in (AttemptState.ACCEPTED, AttemptState.RUNNING):
        again = bench.ack(attempt, state)
        assert isinstance(again, Repeat)
        assert again.job_id == attempt.job_id
    assert bench.read(attempt) == before


def test_finishing_stores_the_result_and_frees_the_slot_in_one_step(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    ending = success(attempt)
    answer = bench.finish(attempt, ending)
    assert isinstance(answer, Finished)
    assert answer.freed.slots == 1
    assert bench.held(node) == 0
    record = bench.read(attempt)
    assert record is not None
    assert (record.state, record.outcome) == (AttemptState.FINISHED, Outcome.SUCCESS)
    assert record.output == ending.output


def test_a_result_is_taken_once(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    bench.finish(attempt)
    before = bench.read(attempt)
    assert bench.finish(attempt, failure()) == Stale(StaleReason.DUPLICATE)
    assert isinstance(bench.ack(attempt), Stale)
    assert bench.read(attempt) == before
    assert bench.held(node) == 0


def test_a_finished_attempt_stays_until_it_is_settled(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.finish(attempt)
    bench.advance(3_000)
    assert bench.state(attempt) is AttemptState.FINISHED
    for _ in range(2):
        bench(bench.ledger.settle(attempt.cell, [attempt.attempt_id]))
        assert bench.read(attempt) is None
    assert bench.finish(attempt) == Stale(StaleReason.UNKNOWN)


def test_settling_does_not_touch_what_still_runs(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench(bench.ledger.settle(attempt.cell, [attempt.attempt_id]))
    assert bench.held(node) == 1


def test_another_node_or_an_older_connection_changes_nothing(bench: Bench) -> None:
    node, stranger = bench.join("n-1"), bench.join("n-2")
    attempt = bench.dispatch(node)
    older = Sender(node.node_id, node.owner.epoch - 1)
    before = bench.read(attempt)
    for sender, reason in (
        (stranger.sender, StaleReason.WRONG_NODE),
        (older, StaleReason.OLD_ATTEMPT),
    ):
        assert bench.finish(attempt, sender=sender) == Stale(reason)
        answer = bench.ledger.transition(
            attempt.cell, attempt.attempt_id, sender, AttemptState.RUNNING
        )
        assert bench(answer) == Stale(reason)
    assert bench.read(attempt) == before
    assert bench.held(node) == 1


def test_the_lease_is_the_ack_time_first_and_the_heartbeat_time_after_the_ack(
    bench: Bench,
) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    first = bench.read(attempt)
    assert first is not None
    assert first.due_at_ms == first.times.dispatched_ms + ACK_MS
    bench.advance(1)
    bench.ack(attempt)
    then = bench.read(attempt)
    assert then is not None
    assert then.run_until_ms == then.times.accepted_ms + RUN_MS
    assert then.due_at_ms == min(then.times.accepted_ms + LEASE_MS, then.run_until_ms)


# --- cancelling ---------------------------------------------------------------------------------


def test_cancelling_keeps_the_slot(bench: Bench) -> None:
    node, attempt = cancelled(bench, acked=True)
    bench.advance(3)
    assert bench.state(attempt) is AttemptState.CANCELLING
    assert bench.held(node) == 1


def test_cancelling_again_answers_the_same_and_does_not_prolong_it(bench: Bench) -> None:
    _, attempt = cancelled(bench, acked=True)
    before = bench.read(attempt)
    bench.advance(1)
    assert isinstance(bench.cancel(attempt), CancelWon)
    assert bench.read(attempt) == before


@pytest.mark.parametrize("acked", [True, False])
def test_any_result_of_a_cancelled_attempt_frees_its_slot_and_is_dropped(
    bench: Bench, acked: bool
) -> None:
    node, attempt = cancelled(bench, acked=acked)
    answer = bench.finish(attempt)
    assert isinstance(answer, LateFinish)
    assert answer.freed.slots == 1
    assert bench.held(node) == 0
    record = bench.read(attempt)
    assert record is None or record.output is None
    again = bench.finish(attempt)
    assert isinstance(again, Stale)


def test_a_heartbeat_that_no_longer_lists_a_cancelled_attempt_frees_its_slot(
    bench: Bench,
) -> None:
    node, attempt = cancelled(bench, acked=True)
    assert bench.beat(node, attempt.running).cancelling == (attempt.running,)
    assert bench.held(node) == 1
    assert bench.beat(node).freed.slots == 1
    assert bench.held(node) == 0


def test_a_node_gone_past_its_grace_frees_a_cancelled_attempt(bench: Bench) -> None:
    node, attempt = cancelled(bench, acked=False)
    answer = bench(bench.ledger.lose(node.cell, node.sender))
    assert isinstance(answer, NodeLost)
    assert answer.lost == ()
    assert bench.held(node) == 0
    assert bench.finish(attempt) in (Stale(StaleReason.UNKNOWN), Stale(StaleReason.LATE))


def test_a_cancelled_attempt_that_was_never_acknowledged_waits_for_the_report(
    bench: Bench,
) -> None:
    node, attempt = cancelled(bench, acked=False)
    bench.beat(node)
    assert bench.held(node) == 1, "the assignment may still be on its way"
    bench.advance(GRACE_MS / 1000 + 1)
    due = bench(bench.ledger.due_attempts([node.cell], 10))
    assert [record.attempt_id for record in due] == [attempt.attempt_id]
    asked = bench.ledger.mark_asked(attempt.cell, attempt.attempt_id, grace_ms=GRACE_MS)
    assert bench(asked) == Done()
    assert bench(bench.ledger.due_attempts([node.cell], 10)) == ()
    assert bench.beat(node).freed.slots == 1
    assert bench.held(node) == 0


def test_a_report_that_still_lists_the_cancelled_attempt_keeps_its_slot(bench: Bench) -> None:
    node, attempt = cancelled(bench, acked=False)
    bench(bench.ledger.mark_asked(attempt.cell, attempt.attempt_id, grace_ms=GRACE_MS))
    assert bench.beat(node, attempt.running).cancelling == (attempt.running,)
    assert bench.held(node) == 1
    bench.beat(node)
    assert bench.held(node) == 0


def test_a_late_ack_of_a_cancelled_attempt_does_not_bring_it_back(bench: Bench) -> None:
    node, attempt = cancelled(bench, acked=False)
    assert bench.ack(attempt) == Stale(StaleReason.LATE)
    assert bench.state(attempt) is AttemptState.CANCELLING
    bench.beat(node)
    assert bench.held(node) == 0, "acknowledged and no longer listed"


def test_a_cancel_that_comes_after_the_end_learns_of_it(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.finish(attempt)
    assert bench.cancel(attempt) == AlreadyEnded(attempt.job_id, Outcome.SUCCESS, None)
    bench(bench.ledger.settle(attempt.cell, [attempt.attempt_id]))
    assert isinstance(bench.cancel(attempt), Stale)


def test_a_cancel_and_a_result_at_the_same_time_have_one_winner(bench: Bench) -> None:
    node = bench.join("n-1")
    for _ in range(20):
        attempt = bench.dispatch(node)
        ledger = bench.ledger
        cancel = ledger.cancel(attempt.cell, attempt.attempt_id, CANCELLED, grace_ms=GRACE_MS)
        finish = ledger.finish(
            attempt.cell, attempt.attempt_id, attempt.sender, success(attempt), due_ms=DUE_MS
        )
        answers = {type(answer).__name__ for answer in bench.together(cancel, finish)}
        assert answers in ({"CancelWon", "LateFinish"}, {"AlreadyEnded", "Finished"})
        assert bench.held(node) == 0
        bench(ledger.settle(attempt.cell, [attempt.attempt_id]))


def test_only_cancelling_attempts_are_marked_as_asked(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    asked = bench.ledger.mark_asked(attempt.cell, attempt.attempt_id, grace_ms=GRACE_MS)
    assert isinstance(bench(asked), Stale)
