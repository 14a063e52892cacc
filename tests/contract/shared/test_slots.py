"""Attempts and the slots they hold: chosen and held in one step, given back once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.shared.bench import (
    ACK_MS,
    CANCELLED,
    DUE_MS,
    GRACE_MS,
    HERE,
    LEASE_MS,
    RUN_MS,
    THERE,
    TOMBSTONE_MS,
    Attempt,
    Bench,
    Node,
    as_attempt,
)

from dragoman.ids import InstanceId, NodeId
from dragoman.live.ledger import (
    Adoption,
    Cold,
    Done,
    Inherited,
    NotSeated,
    Outlook,
    Sender,
    Stale,
    StaleReason,
    Strategy,
    Times,
)
from dragoman.live.protocol import AttemptState, JobClass, Outcome
from dragoman.live.shared import PROMISED_MS, WAITING_MS
from dragoman.live.shared import records as r

BATCH = JobClass.BATCH
TOMBSTONE_SECONDS = TOMBSTONE_MS / 1000
COLD = 7


# --- reserving ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("job_class", JobClass)
def test_near_candidates_come_first_while_one_of_them_has_a_slot(
    bench: Bench, strategy: Strategy, job_class: JobClass
) -> None:
    nodes = [bench.join(f"n-{number}", slots=2) for number in range(4)]
    near = nodes[1:3]
    how: dict[str, Any] = {
        "strategy": strategy,
        "job_class": job_class,
        "near": sum(1 << node.index for node in near),
    }
    for node in nodes:
        bench.dispatch(node)
    granted = [bench.try_reserve(*nodes, **how) for _ in range(4)]
    got = [answer.node_id for answer in granted if isinstance(answer, r.Granted)]
    assert sorted(got[:2]) == sorted(node.node_id for node in near)
    assert sorted(got[2:]) == sorted(node.node_id for node in (nodes[0], nodes[3]))
    assert bench.try_reserve(*nodes, **how) == r.Full()


def test_headroom_is_counted_over_all_candidates_near_or_not(bench: Bench) -> None:
    near, far = bench.join("n-1", slots=2), bench.join("n-2", slots=2)
    how: dict[str, Any] = {"job_class": BATCH, "headroom": 0.5, "near": 1 << near.index}
    for _ in range(2):
        granted = bench.try_reserve(near, far, **how)
        assert isinstance(granted, r.Granted)
        assert granted.node_id == near.node_id
    assert bench.try_reserve(near, far, **how) == r.Full(headroom=True)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_near_slot_is_left_to_the_instance_that_was_woken_for_it(
    bench: Bench, strategy: Strategy
) -> None:
    near, far = bench.join("n-1", slots=5), bench.join("n-2", slots=5)

    def granted(*nodes: Node) -> Attempt:
        ask = bench.ask(*nodes, strategy=strategy, near=1 << near.index)
        answer = bench(bench.ledger.reserve(ask))
        assert isinstance(answer, r.Granted)
        return as_attempt(ask, answer)

    held = [granted(near) for _ in range(5)]
    wait(bench, "i-waits", near)
    for attempt in held[:3]:
        bench.finish(attempt)
    assert [granted(near, far).node_id for _ in range(5)] == 5 * [far.node_id]
    # There is no other one left.
    assert granted(near, far).node_id == near.node_id
    taken = bench.try_reserve(near, strategy=strategy, instance_id=InstanceId("i-waits"))
    assert isinstance(taken, r.Granted)
    bench.advance(2 * PROMISED_MS / 1000)
    assert granted(near, far).node_id == near.node_id


@pytest.mark.parametrize("strategy", Strategy)
def test_a_slot_is_granted_on_a_candidate_that_has_one(bench: Bench, strategy: Strategy) -> None:
    full, free, other = bench.join("n-1"), bench.join("n-2"), bench.join("n-3")
    bench.dispatch(full)
    granted = bench.try_reserve(full, free, strategy=strategy)
    assert isinstance(granted, r.Granted)
    assert (granted.cell, granted.index) == (free.cell, free.index)
    assert (granted.node_id, granted.owner) == (free.node_id, free.owner)
    assert bench.try_reserve(full, free, strategy=strategy) == r.Full()
    assert bench.held(other) == 0


def chosen(bench: Bench, nodes: list[Node], strategy: Strategy, times: int) -> list[NodeId]:
    """Who is chosen, each time with everything as it was before."""
    found = []
    for _ in range(times):
        attempt = bench.dispatch(*nodes, strategy=strategy)
        bench(bench.ledger.drop(attempt.cell, attempt.attempt_id, tombstone_ms=0))
        found.append(attempt.sender.node_id)
    return found


def test_any_free_node_may_be_chosen_at_random(bench: Bench) -> None:
    nodes = [bench.join(f"n-{number}", slots=4) for number in range(3)]
    for _ in range(3):
        bench.dispatch(nodes[0])
    assert set(chosen(bench, nodes, Strategy.RANDOM, 60)) == {node.node_id for node in nodes}


def test_of_two_that_are_drawn_the_less_loaded_is_chosen(bench: Bench) -> None:
    nodes = [bench.join(f"n-{number}", slots=4) for number in range(3)]
    for _ in range(3):
        bench.dispatch(nodes[0])
    found = chosen(bench, nodes, Strategy.POWER_OF_TWO, 60)
    # Whoever is drawn with the most loaded of all is less loaded.
    assert set(found) == {node.node_id for node in nodes[1:]}


def test_the_least_loaded_is_chosen(bench: Bench) -> None:
    nodes = [bench.join(f"n-{number}", slots=4) for number in range(3)]
    for number, node in enumerate(nodes):
        for _ in range(3 - number):
            bench.dispatch(node)
    assert set(chosen(bench, nodes, Strategy.LEAST_LOADED, 10)) == {nodes[2].node_id}


def test_the_node_that_would_be_done_first_is_chosen(bench: Bench) -> None:
    nodes = [bench.join(f"n-{number}", slots=4) for number in range(3)]
    for node, seconds in zip(nodes, (0.5, 0.1, 0.4), strict=True):
        attempt = bench.dispatch(node)
        bench.advance(seconds)
        bench.finish(attempt)
    bench.dispatch(nodes[1])
    assert set(chosen(bench, nodes, Strategy.LATENCY_WEIGHTED, 10)) == {nodes[1].node_id}


def test_askers_at_the_same_time_share_the_slots_exactly(bench: Bench) -> None:
    nodes = [bench.join(f"n-{number}", slots=2) for number in range(5)]
    answers = bench.together(*(bench.ledger.reserve(bench.ask(*nodes)) for _ in range(25)))
    assert sum(isinstance(answer, r.Granted) for answer in answers) == 10
    assert [bench.held(node) for node in nodes] == [2] * 5


def test_a_slot_asked_for_again_is_the_same_slot(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    ask = bench.ask(node)
    first = bench(bench.ledger.reserve(ask))
    bench.advance(1)
    assert bench(bench.ledger.reserve(ask)) == first
    assert bench.held(node) == 1


def test_a_cell_without_nodes_is_cold(bench: Bench) -> None:
    assert bench.try_reserve(cell=COLD, candidates=1) == r.Full(cold=True)
    assert bench(bench.ledger.preempt(bench.ask(cell=COLD, candidates=1))) == r.NoVictim()


def test_no_slot_is_granted_on_a_node_that_is_silent_lost_or_drained(bench: Bench) -> None:
    silent = bench.join("n-1")
    bench.advance(LEASE_MS / 1000 + 1)
    lost, drained = bench.join("n-2"), bench.join("n-3")
    bench(bench.ledger.disconnect(lost.cell, lost.sender))
    bench(bench.ledger.set_drained(drained.cell, drained.node_id, True))
    assert bench.try_reserve(silent, lost, drained) == r.Full()


def test_batch_work_leaves_its_share_of_the_slots_to_live_work(bench: Bench) -> None:
    node = bench.join("n-1", slots=4)
    for _ in range(3):
        bench.dispatch(node, job_class=BATCH, headroom=0.25)
    assert bench.try_reserve(node, job_class=BATCH, headroom=0.25) == r.Full(headroom=True)
    assert isinstance(bench.try_reserve(node), r.Granted)


def test_a_held_attempt_says_all_that_the_sweep_needs(bench: Bench) -> None:
    node = bench.join("n-1")
    ask = bench.ask(node, job_class=BATCH, preemptions=1, instance_id=THERE)
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, r.Granted)
    assert bench.look(ask) == r.StoredAttempt(
        attempt_id=ask.attempt_id,
        job_id=ask.job_id,
        cell=ask.cell,
        node_id=node.node_id,
        owner=node.owner,
        job_class=BATCH,
        state=AttemptState.DISPATCHED,
        instance_id=THERE,
        due_at_ms=granted.at_ms + ACK_MS,
        times=Times(dispatched_ms=granted.at_ms),
        preemptions=1,
    )


# --- steps --------------------------------------------------------------------------------------


def test_a_node_accepts_and_runs_an_attempt(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.advance(1)
    assert bench.accept(attempt) == ()
    bench.advance(1)
    assert bench.accept(attempt, AttemptState.RUNNING) == ()
    stored = bench.look(attempt)
    assert isinstance(stored, r.StoredAttempt)
    times = stored.times
    assert stored.state is AttemptState.RUNNING
    assert times.accepted_ms - times.dispatched_ms >= 1_000
    assert times.running_ms - times.accepted_ms >= 1_000
    assert stored.run_until_ms == times.accepted_ms + RUN_MS


def test_a_step_back_or_again_changes_nothing(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.accept(attempt, AttemptState.RUNNING)
    stored = bench.look(attempt)
    bench.advance(1)
    assert bench.accept(attempt, AttemptState.RUNNING) == ()
    assert bench.accept(attempt, AttemptState.ACCEPTED) == ()
    assert bench.look(attempt) == stored


def test_steps_of_attempts_that_hold_no_slot_come_back(bench: Bench) -> None:
    node, other = bench.join("n-1", slots=3), bench.join("n-2")
    attempt, dropped, done = (bench.dispatch(node) for _ in range(3))
    bench.drop(dropped)
    bench.finish(done)
    epoch = node.owner.epoch
    steps = [
        r.AttemptStep(attempt.attempt_id, node.node_id, epoch, AttemptState.ACCEPTED, 1),
        r.AttemptStep(attempt.attempt_id, other.node_id, epoch, AttemptState.RUNNING, 1),
        r.AttemptStep(attempt.attempt_id, node.node_id, epoch - 1, AttemptState.RUNNING, 1),
        r.AttemptStep(dropped.attempt_id, node.node_id, epoch, AttemptState.ACCEPTED, 1),
        r.AttemptStep(done.attempt_id, node.node_id, epoch, AttemptState.ACCEPTED, 1),
    ]
    unknown = bench(bench.ledger.step(node.cell, steps))
    assert unknown == (attempt.attempt_id, attempt.attempt_id, dropped.attempt_id)
    stored = bench.look(attempt)
    assert isinstance(stored, r.StoredAttempt)
    assert stored.state is AttemptState.ACCEPTED
    assert bench(bench.ledger.step(COLD, steps[:1])) == (attempt.attempt_id,)


# --- finishing ----------------------------------------------------------------------------------


def test_a_finished_attempt_gives_its_slot_back(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.accept(attempt)
    bench.advance(2)
    freed = bench.finish(attempt)
    assert isinstance(freed, r.FreedSlot)
    assert (freed.job_id, freed.slots, freed.inherited) == (attempt.job_id, 1, ())
    assert freed.times.finished_ms - freed.times.accepted_ms >= 2_000
    assert bench.held(node) == 0
    assert bench.seat(node).mean_ms >= 2_000


@pytest.mark.parametrize("keep", [False, True])
def test_a_finish_asked_again_frees_nothing_more(bench: Bench, keep: bool) -> None:
    node = bench.join("n-1", slots=2)
    attempt, other = bench.dispatch(node), bench.dispatch(node)
    bench.finish(attempt, keep=keep)
    assert bench.finish(attempt, keep=keep) == Stale(StaleReason.DUPLICATE)
    assert bench.held(node) == 1
    assert isinstance(bench.finish(other, due_ms=0), r.FreedSlot)
    assert bench.finish(other, due_ms=0) == Stale(StaleReason.UNKNOWN)


def test_a_finish_over_another_connection_changes_nothing(bench: Bench) -> None:
    node, other = bench.join("n-1"), bench.join("n-2")
    attempt = bench.dispatch(node)
    older = Sender(node.node_id, node.owner.epoch - 1)
    assert bench.finish(attempt, sender=older) == Stale(StaleReason.OLD_ATTEMPT)
    assert bench.finish(attempt, sender=other.sender) == Stale(StaleReason.WRONG_NODE)
    assert bench.held(node) == 1


def test_a_finish_in_a_cold_cell_is_told(bench: Bench) -> None:
    ask = bench.ask(cell=COLD)
    finish = r.Finish(Outcome.SUCCESS)
    answer = bench(bench.ledger.finish(COLD, ask.attempt_id, Sender(NodeId("n-1"), 1), finish))
    assert answer == Cold(COLD)


def test_a_kept_result_waits_for_its_driver(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.finish(attempt, keep=True)
    stored = bench.look(attempt)
    assert isinstance(stored, r.StoredAttempt)
    assert (stored.state, stored.outcome) == (AttemptState.FINISHED, Outcome.SUCCESS)
    assert stored.output is not None
    assert bench(bench.ledger.due_attempts(node.cell, 10)) == ()
    bench.advance(DUE_MS / 1000)
    assert bench(bench.ledger.due_attempts(node.cell, 10)) == (stored,)
    for _ in range(2):
        bench(bench.ledger.settle(node.cell, [attempt.attempt_id]))
    assert bench(bench.ledger.due_attempts(node.cell, 10)) == ()
    assert bench.look(attempt) == r.Tombstone()


def test_a_result_that_was_not_kept_looks_like_no_attempt(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.finish(attempt)
    assert bench.look(attempt) == r.Tombstone()


# --- tombstones ---------------------------------------------------------------------------------


def test_a_late_reserve_finds_the_tombstone_until_it_is_due(bench: Bench) -> None:
    node = bench.join("n-1")
    ask = bench.ask(node)
    assert bench.look(ask) == r.Tombstone()
    bench.advance(TOMBSTONE_SECONDS - 1)
    assert bench(bench.ledger.reserve(ask)) == r.Gone()
    assert bench(bench.ledger.preempt(ask)) == r.Gone()
    assert bench.held(node) == 0
    bench.advance(2)
    assert isinstance(bench(bench.ledger.reserve(ask)), r.Granted)


def test_a_tombstone_stands_in_a_cold_cell_as_well(bench: Bench) -> None:
    node = bench.join("n-1")
    ask = bench.ask(node)
    bench(bench.ledger.remove(node.cell, node.sender))
    assert bench.drop(ask) == Stale(StaleReason.UNKNOWN)
    node = bench.join("n-1")
    assert bench(bench.ledger.reserve(ask)) == r.Gone()


@pytest.mark.parametrize("keep", [False, True])
def test_a_late_reserve_after_the_finish_is_gone(bench: Bench, keep: bool) -> None:
    node = bench.join("n-1")
    ask = bench.ask(node)
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, r.Granted)
    attempt = as_attempt(ask, granted)
    bench.finish(attempt, keep=keep)
    assert bench(bench.ledger.reserve(ask)) == r.Gone()
    bench(bench.ledger.settle(node.cell, [ask.attempt_id]))
    assert bench(bench.ledger.reserve(ask)) == r.Gone()
    bench.advance(DUE_MS / 1000)
    assert bench(bench.ledger.size())["tombstones"] == 0


def test_a_slot_that_no_node_was_told_of_is_dropped(bench: Bench) -> None:
    node = bench.join("n-1")
    ask = bench.ask(node)
    bench(bench.ledger.reserve(ask))
    freed = bench.drop(ask)
    assert isinstance(freed, r.FreedSlot)
    assert (freed.job_id, freed.slots) == (ask.job_id, 1)
    assert bench.held(node) == 0
    assert bench.drop(ask) == Stale(StaleReason.UNKNOWN)
    assert bench(bench.ledger.reserve(ask)) == r.Gone()


def test_an_attempt_that_its_node_knows_of_is_not_dropped(bench: Bench) -> None:
    node = bench.join("n-1", slots=3)
    accepted, cancelled, finished = (bench.dispatch(node) for _ in range(3))
    bench.accept(accepted)
    bench.cancel(cancelled)
    bench.finish(finished, keep=True)
    for attempt in (accepted, cancelled, finished):
        assert bench.drop(attempt) == Stale(StaleReason.OLD_ATTEMPT)
    assert bench.held(node) == 2


# --- cancelling ---------------------------------------------------------------------------------


def test_a_cancelled_attempt_keeps_its_slot_until_its_node_lets_go(bench: Bench) -> None:
    node = bench.join("n-1")
    ask = bench.ask(node)
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, r.Granted)
    attempt = as_attempt(ask, granted)
    times = Times(dispatched_ms=granted.at_ms)
    won = r.CancelWon(attempt.job_id, node.node_id, node.owner, times)
    assert [bench.cancel(attempt), bench.cancel(attempt)] == [won, won]
    assert bench.held(node) == 1
    assert bench(bench.ledger.reserve(ask)) == r.Gone()
    late = bench.finish(attempt)
    assert isinstance(late, r.LateFinish)
    assert (late.freed.job_id, late.freed.slots) == (attempt.job_id, 1)
    assert bench.held(node) == 0
    assert bench.finish(attempt) == Stale(StaleReason.LATE)
    assert bench.cancel(attempt) == Stale(StaleReason.LATE)
    assert bench(bench.ledger.reserve(ask)) == r.Gone()


def test_a_cancel_that_comes_after_the_end_is_told_the_end(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.finish(attempt, keep=True)
    stored = bench.look(attempt)
    assert bench.cancel(attempt) == r.AlreadyEnded(stored)  # type: ignore[arg-type]


def test_what_is_unknown_cannot_be_cancelled(bench: Bench) -> None:
    node = bench.join("n-1")
    ask = bench.ask(node)
    cancel = bench.ledger.cancel
    answer = bench(cancel(node.cell, ask.attempt_id, CANCELLED, grace_ms=GRACE_MS))
    assert answer == Stale(StaleReason.UNKNOWN)
    assert bench(cancel(COLD, ask.attempt_id, CANCELLED, grace_ms=GRACE_MS)) == Cold(COLD)


def test_a_silent_node_is_asked_and_its_next_heartbeat_decides(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    mark = bench.ledger.mark_asked
    running = mark(node.cell, attempt.attempt_id, grace_ms=GRACE_MS)
    assert bench(running) == Stale(StaleReason.UNKNOWN)
    bench.cancel(attempt)
    bench.advance(GRACE_MS / 1000)
    due = bench(bench.ledger.due_attempts(node.cell, 10))
    assert [each.state for each in due] == [AttemptState.CANCELLING]
    bench.beat(node)
    assert bench.held(node) == 1
    for _ in range(2):
        assert bench(mark(node.cell, attempt.attempt_id, grace_ms=GRACE_MS)) == Done()
    assert bench(bench.ledger.due_attempts(node.cell, 10)) == ()
    bench.beat(node)
    assert bench.held(node) == 0
    assert bench(mark(COLD, attempt.attempt_id, grace_ms=GRACE_MS)) == Cold(COLD)


# --- preempting ---------------------------------------------------------------------------------


def test_live_work_takes_the_slot_of_the_youngest_batch_attempt(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    bench.dispatch(node, job_class=BATCH)
    bench.advance(1)
    young = bench.dispatch(node, job_class=BATCH, instance_id=THERE)
    ask = bench.ask(node)
    answer = bench(bench.ledger.preempt(ask))
    assert isinstance(answer, r.Preempting)
    assert (answer.victim, answer.victim_instance) == (young.running, THERE)
    assert (answer.node_id, answer.owner) == (node.node_id, node.owner)
    bench.advance(1)
    assert bench(bench.ledger.preempt(ask)) == answer
    assert bench(bench.ledger.reserve(ask)) == r.Full()
    late = bench.finish(young)
    assert isinstance(late, r.LateFinish)
    assert late.freed.slots == 0
    assert late.freed.inherited == (Inherited(ask.job_id, ask.attempt_id),)
    assert isinstance(bench(bench.ledger.reserve(ask)), r.Granted)
    assert bench.held(node) == 2


def test_a_free_slot_is_granted_instead_of_preempting(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    bench.dispatch(node, job_class=BATCH)
    assert isinstance(bench(bench.ledger.preempt(bench.ask(node))), r.Granted)


def test_live_work_and_work_that_gave_way_often_is_left_alone(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    bench.dispatch(node)
    bench.dispatch(node, job_class=BATCH, preemptions=2)
    assert bench(bench.ledger.preempt(bench.ask(node, max_preemptions=2))) == r.NoVictim()


@pytest.mark.parametrize("by", ["drop", "look"])
def test_an_heir_that_is_given_up_gets_no_slot(bench: Bench, by: str) -> None:
    node = bench.join("n-1")
    victim = bench.dispatch(node, job_class=BATCH)
    ask = bench.ask(node)
    bench(bench.ledger.preempt(ask))
    (bench.drop if by == "drop" else bench.look)(ask)
    late = bench.finish(victim)
    assert isinstance(late, r.LateFinish)
    assert (late.freed.slots, late.freed.inherited) == (1, ())
    assert bench.held(node) == 0
    assert bench(bench.ledger.reserve(ask)) == r.Gone()


# --- waiting ------------------------------------------------------------------------------------


def wait(bench: Bench, instance: str, *nodes: Node, pair: str = "zh-en", **more: Any) -> None:
    answer = bench.try_reserve(*nodes, instance_id=InstanceId(instance), waits_for=pair, **more)
    assert isinstance(answer, r.Full)


def woken(freed: object) -> InstanceId | None:
    assert isinstance(freed, r.FreedSlot)
    return freed.wake


def test_a_free_slot_wakes_the_instance_that_waits_longest(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    for name in ("i-1", "i-2"):
        wait(bench, name, node)
        bench.advance(1)
    wait(bench, "i-1", node)
    assert woken(bench.finish(attempt)) == "i-1"
    attempt = bench.dispatch(node)
    assert woken(bench.finish(attempt)) == "i-2"
    attempt = bench.dispatch(node)
    assert woken(bench.finish(attempt)) is None


def test_an_instance_that_does_not_wait_is_not_woken(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    wait(bench, "i-1", node, pair="")
    assert woken(bench.drop(attempt)) is None


def test_only_instances_whose_candidates_have_the_slot_are_woken(bench: Bench) -> None:
    first, second = bench.join("n-1"), bench.join("n-2")
    attempts = [bench.dispatch(first), bench.dispatch(second)]
    wait(bench, "i-1", first)
    bench.advance(1)
    wait(bench, "i-2", first, second)
    assert woken(bench.drop(attempts[1])) == "i-2"
    assert woken(bench.drop(attempts[0])) == "i-1"


def test_live_work_is_woken_before_batch_work(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    wait(bench, "i-1", node, job_class=BATCH)
    bench.advance(1)
    wait(bench, "i-2", node)
    assert woken(bench.drop(attempt)) == "i-2"


def test_waiting_ends_when_it_is_not_renewed(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    wait(bench, "i-1", node)
    bench.advance(WAITING_MS / 1000)
    assert bench(bench.ledger.size())["waiting"] == 0
    assert woken(bench.drop(attempt)) is None


def test_a_slot_that_passes_to_an_heir_wakes_no_instance(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = bench.dispatch(node, job_class=BATCH)
    bench(bench.ledger.preempt(bench.ask(node)))
    wait(bench, "i-1", node)
    late = bench.finish(victim)
    assert isinstance(late, r.LateFinish)
    assert woken(late.freed) is None


def test_slots_that_are_added_wake_one_instance_each(bench: Bench) -> None:
    node = bench.join("n-1")
    bench.dispatch(node)
    for name in ("i-1", "i-2", "i-3"):
        wait(bench, name, node)
        bench.advance(1)
    ledger = bench.ledger
    amended = bench(ledger.amend(node.cell, node.sender, slots=3))
    assert amended == Done(wake=(InstanceId("i-1"), InstanceId("i-2")))
    bench(ledger.set_drained(node.cell, node.node_id, True))
    assert bench(ledger.amend(node.cell, node.sender, slots=4)) == Done()
    resumed = bench(ledger.set_drained(node.cell, node.node_id, False))
    assert resumed == Done(wake=(InstanceId("i-3"),))


def test_a_node_that_comes_back_wakes_an_instance(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.accept(attempt)
    wait(bench, "i-1", node)
    assert bench.beat(node).freed.wake == (InstanceId("i-1"),)
    bench.dispatch(node)
    wait(bench, "i-2", node)
    assert bench.join("n-1").placed.freed.wake == (InstanceId("i-2"),)


# --- adopting -----------------------------------------------------------------------------------


def adoption(attempt: Any, node: Node, *, wanted: bool = True, **more: Any) -> Adoption:
    return Adoption(attempt.running, node.sender, JobClass.LIVE, wanted, LEASE_MS, RUN_MS, **more)


def test_an_attempt_that_its_cell_forgot_holds_a_slot_again(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.finish(attempt, due_ms=0)
    bench.dispatch(node)
    wanted = adoption(attempt, node, instance_id=THERE)
    for _ in range(2):
        assert bench(bench.ledger.adopt(node.cell, wanted)) == Done()
    assert bench.held(node) == 2
    stored = bench.look(attempt)
    assert isinstance(stored, r.StoredAttempt)
    assert (stored.state, stored.instance_id) == (AttemptState.RUNNING, THERE)


def test_an_attempt_that_no_job_wants_is_adopted_to_be_cancelled(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.drop(attempt)
    assert bench(bench.ledger.adopt(node.cell, adoption(attempt, node, wanted=False))) == Done()
    stored = bench.look(attempt)
    assert isinstance(stored, r.StoredAttempt)
    assert (stored.state, stored.instance_id) == (AttemptState.CANCELLING, HERE)
    assert isinstance(bench.finish(attempt), r.LateFinish)


def test_an_attempt_that_is_over_is_not_adopted_as_wanted(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.drop(attempt)
    late = bench(bench.ledger.adopt(node.cell, adoption(attempt, node)))
    assert late == Stale(StaleReason.LATE)
    assert bench.held(node) == 0


def test_only_the_nodes_connection_can_have_an_attempt_adopted(bench: Bench) -> None:
    node, other = bench.join("n-1"), bench.join("n-2")
    attempt = bench.dispatch(node)
    adopt = bench.ledger.adopt
    there = bench(adopt(node.cell, adoption(attempt, other)))
    assert there == Stale(StaleReason.WRONG_NODE)
    bench.finish(attempt, due_ms=0)
    again = bench.join("n-1")
    assert bench(adopt(node.cell, adoption(attempt, node))) == Stale(StaleReason.OLD_ATTEMPT)
    bench(bench.ledger.remove(again.cell, again.sender))
    assert bench(adopt(node.cell, adoption(attempt, again))) == NotSeated(node.node_id)
    assert bench(adopt(COLD, adoption(attempt, again))) == Cold(COLD)


# --- what can be expected -----------------------------------------------------------------------


def test_the_outlook_counts_slots_and_paces(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    candidates = [(node.cell, 1 << node.index), (COLD, 1)]
    assert bench(bench.ledger.outlook(candidates)) == Outlook(2, 1, None)
    bench.advance(3)
    bench.finish(attempt)
    bench.dispatch(node)
    outlook = bench(bench.ledger.outlook(candidates))
    assert (outlook.slots, outlook.held) == (2, 1)
    assert outlook.first_free_ms is not None
    assert outlook.first_free_ms >= 3_000


def test_no_instance_waits_in_a_cold_cell(bench: Bench) -> None:
    """What makes the cell warm is news to all instances."""
    assert bench.try_reserve(candidates=1, waits_for="zh-en") == r.Full(cold=True)
    assert bench(bench.ledger.size())["waiting"] == 0
