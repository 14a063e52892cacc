"""Batch work gives way to live work, and still gets done."""

from __future__ import annotations

from tests.contract.ledger.bench import TOTAL_MS, Attempt, Bench, Node, as_attempt, success

from dragoman.live.ledger import (
    Bound,
    Dropped,
    Finished,
    Full,
    Granted,
    LateFinish,
    NoVictim,
    Preempting,
    SlotAsk,
)
from dragoman.live.protocol import AttemptState, JobClass

MAX_PREEMPTIONS = 3


def batch(bench: Bench, node: Node, preemptions: int = 0) -> Attempt:
    return bench.dispatch(node, job_class=JobClass.BATCH, preemptions=preemptions)


def live_ask(bench: Bench, *nodes: Node) -> SlotAsk:
    return bench.ask(bench.new_job(), *nodes, max_preemptions=MAX_PREEMPTIONS)


def preempting(bench: Bench, ask: SlotAsk) -> Preempting:
    answer = bench(bench.ledger.preempt(ask))
    assert isinstance(answer, Preempting)
    return answer


def test_live_work_without_a_slot_cancels_batch_work(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = batch(bench, node)
    ask = live_ask(bench, node)
    answer = preempting(bench, ask)
    assert (answer.victim, answer.node_id, answer.owner) == (
        victim.running,
        node.node_id,
        node.owner,
    )
    record = bench.read(victim)
    assert record is not None
    assert record.state is AttemptState.CANCELLING
    assert record.error is not None
    assert record.error.code == "PREEMPTED"
    assert bench.held(node) == 1
    assert bench(bench.ledger.reserve(ask)) == Full()


def test_the_freed_slot_passes_to_the_heir_and_to_no_other_attempt(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = batch(bench, node)
    ask = live_ask(bench, node)
    preempting(bench, ask)
    answer = bench.finish(victim)
    assert isinstance(answer, LateFinish)
    assert answer.freed.slots == 0
    assert [one.attempt_id for one in answer.freed.inherited] == [ask.attempt_id]
    assert bench(bench.ledger.reserve(bench.ask(bench.new_job(), node))) == Full()
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, Granted)
    heir = as_attempt(ask, granted)
    assert bench.bind(heir) == Bound(1)
    assert isinstance(bench.finish(heir, success(heir)), Finished)
    assert bench.held(node) == 0


def test_the_heir_inherits_when_a_heartbeat_no_longer_lists_the_victim(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = batch(bench, node)
    bench.ack(victim)
    ask = live_ask(bench, node)
    preempting(bench, ask)
    answer = bench.beat(node)
    assert [one.attempt_id for one in answer.freed.inherited] == [ask.attempt_id]
    assert bench.held(node) == 1


def test_the_heir_inherits_when_the_node_comes_back_without_the_victim(bench: Bench) -> None:
    node = bench.join("n-1")
    batch(bench, node)
    ask = live_ask(bench, node)
    preempting(bench, ask)
    back = bench.join("n-1")
    assert [one.attempt_id for one in back.placed.freed.inherited] == [ask.attempt_id]
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, Granted)
    assert granted.owner == back.owner


def test_a_lost_node_leaves_its_heirs_to_look_elsewhere(bench: Bench) -> None:
    node, other = bench.join("n-1"), bench.join("n-2")
    batch(bench, node)
    blocker = bench.dispatch(other)
    ask = live_ask(bench, node, other)
    preempting(bench, ask)
    lost = bench(bench.ledger.lose(node.cell, node.sender))
    assert lost.freed.inherited == ()  # type: ignore[union-attr]
    assert bench(bench.ledger.reserve(ask)) == Full()
    bench.finish(blocker)
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, Granted)
    assert granted.node_id == other.node_id


def test_preempting_again_takes_no_second_victim(bench: Bench) -> None:
    nodes = [bench.join(f"n-{number}") for number in range(3)]
    attempts = [batch(bench, node) for node in nodes]
    ask = live_ask(bench, *nodes)
    first, again = preempting(bench, ask), preempting(bench, ask)
    assert first.victim == again.victim
    states = [bench.state(attempt) for attempt in attempts]
    assert states.count(AttemptState.CANCELLING) == 1


def test_a_slot_that_came_free_meanwhile_is_granted_at_once(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    victim = batch(bench, node)
    answer = bench(bench.ledger.preempt(live_ask(bench, node)))
    assert isinstance(answer, Granted)
    assert bench.state(victim) is AttemptState.DISPATCHED


def test_an_heir_that_finds_a_slot_elsewhere_holds_one_and_no_more(bench: Bench) -> None:
    node, other = bench.join("n-1"), bench.join("n-2")
    victim = batch(bench, node)
    blocker = bench.dispatch(other)
    ask = live_ask(bench, node, other)
    preempting(bench, ask)
    bench.finish(blocker)
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, Granted)
    assert granted.node_id == other.node_id
    freed = bench.finish(victim)
    assert isinstance(freed, LateFinish)
    assert (freed.freed.slots, freed.freed.inherited) == (1, ())
    assert (bench.held(node), bench.held(other)) == (0, 1)
    assert isinstance(bench.finish(as_attempt(ask, granted)), Finished)
    assert bench.held(other) == 0


def test_an_heir_that_is_done_before_its_victim_inherits_nothing(bench: Bench) -> None:
    node, other = bench.join("n-1"), bench.join("n-2")
    victim = batch(bench, node)
    blocker = bench.dispatch(other)
    ask = live_ask(bench, node, other)
    preempting(bench, ask)
    bench.finish(blocker)
    bench.finish(bench.reserve(ask))
    bench.finish(victim)
    assert (bench.held(node), bench.held(other)) == (0, 0)


def test_an_heir_that_gives_up_leaves_the_slot_to_anybody(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = batch(bench, node)
    ask = live_ask(bench, node)
    answer = preempting(bench, ask)
    for _ in range(2):
        assert isinstance(bench(bench.ledger.drop(answer.cell, ask.attempt_id)), Dropped)
    freed = bench.finish(victim)
    assert isinstance(freed, LateFinish)
    assert freed.freed.slots == 1
    bench.dispatch(node)


def test_an_heir_that_never_came_for_its_slot_is_due_like_any_other(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = batch(bench, node)
    ask = live_ask(bench, node)
    preempting(bench, ask)
    bench.finish(victim)
    bench.advance(6)
    due = bench(bench.ledger.due_attempts([node.cell], 10))
    assert [record.attempt_id for record in due] == [ask.attempt_id]
    assert isinstance(bench(bench.ledger.drop(node.cell, ask.attempt_id)), Dropped)
    assert bench.held(node) == 0


def test_two_live_jobs_take_two_victims(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    victims = [batch(bench, node) for _ in range(2)]
    asks = [live_ask(bench, node) for _ in range(2)]
    taken = {preempting(bench, ask).victim.attempt_id for ask in asks}
    assert taken == {victim.attempt_id for victim in victims}
    assert bench(bench.ledger.preempt(live_ask(bench, node))) == NoVictim()


def test_live_work_is_never_a_victim(bench: Bench) -> None:
    node = bench.join("n-1")
    bench.dispatch(node)
    assert bench(bench.ledger.preempt(live_ask(bench, node))) == NoVictim()


def test_a_batch_job_that_gave_way_often_enough_is_left_alone(bench: Bench) -> None:
    node = bench.join("n-1")
    job_id = bench.new_job(job_class=JobClass.BATCH)
    for given_way in range(MAX_PREEMPTIONS):
        victim = bench.reserve(
            bench.ask(job_id, node, job_class=JobClass.BATCH, preemptions=given_way)
        )
        assert bench.bind(victim, TOTAL_MS) == Bound(1)
        ask = live_ask(bench, node)
        answer = preempting(bench, ask)
        bench.retry(victim, preempted=True)
        bench(bench.ledger.drop(answer.cell, ask.attempt_id))
        bench.finish(victim)
    preemptions = bench.job(job_id).preemptions
    assert preemptions == MAX_PREEMPTIONS
    last = bench.ask(job_id, node, job_class=JobClass.BATCH, preemptions=preemptions)
    assert bench.bind(bench.reserve(last), TOTAL_MS) == Bound(1)
    assert bench(bench.ledger.preempt(live_ask(bench, node))) == NoVictim()


def test_a_node_over_its_slots_is_not_robbed_in_vain(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    batch(bench, node)
    batch(bench, node)
    bench(bench.ledger.amend(node.cell, node.sender, slots=1))
    assert bench(bench.ledger.preempt(live_ask(bench, node))) == NoVictim()


def test_only_candidates_give_way(bench: Bench) -> None:
    node, other = bench.join("n-1"), bench.join("n-2")
    batch(bench, other)
    bench.dispatch(node)
    assert bench(bench.ledger.preempt(live_ask(bench, node))) == NoVictim()
