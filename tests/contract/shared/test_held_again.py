"""An attempt that is over and that its node still runs holds a slot until the node lets go."""

from __future__ import annotations

import pytest
from tests.contract.shared.bench import (
    DUE_MS,
    LEASE_MS,
    RUN_MS,
    TOMBSTONE_MS,
    Attempt,
    Bench,
    Node,
)

from dragoman.live.ledger import Adoption, Done
from dragoman.live.protocol import JobClass
from dragoman.live.shared import records as r


def hold_again(bench: Bench, node: Node, attempt: Attempt) -> None:
    adoption = Adoption(
        attempt.running, node.sender, JobClass.LIVE, wanted=False, lease_ms=LEASE_MS, run_ms=RUN_MS
    )
    assert bench(bench.ledger.adopt(node.cell, adoption)) == Done()
    assert bench.held(node) == 1


@pytest.mark.parametrize("swept", [False, True], ids=["unswept", "swept"])
def test_it_outlives_its_tombstone(bench: Bench, swept: bool) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    bench.drop(attempt)
    hold_again(bench, node, attempt)
    bench.advance(TOMBSTONE_MS / 1000)
    if swept:
        bench(bench.ledger.due_attempts(node.cell, 10))
    assert bench.try_reserve(node, attempt_id=attempt.attempt_id) == r.Gone()
    assert bench.beat(node, attempt.running).cancelling == (attempt.running,)
    assert isinstance(bench.finish(attempt), r.LateFinish)
    assert bench.held(node) == 0


@pytest.mark.parametrize("swept", [False, True], ids=["unswept", "swept"])
def test_it_outlives_its_end_that_was_settled(bench: Bench, swept: bool) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    bench.finish(attempt, keep=True)
    hold_again(bench, node, attempt)
    bench.advance(DUE_MS / 1000)
    assert isinstance(bench.look(attempt), r.StoredAttempt)
    bench(bench.ledger.settle(node.cell, [attempt.attempt_id]))
    if swept:
        bench(bench.ledger.due_attempts(node.cell, 10))
    assert bench.held(node) == 1
    assert bench.try_reserve(node, attempt_id=attempt.attempt_id) == r.Gone()
    assert isinstance(bench.finish(attempt), r.LateFinish)
    assert bench.held(node) == 0


def test_its_end_stays_to_be_taken_while_it_is_held_and_after(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    attempt = bench.dispatch(node)
    bench.finish(attempt, keep=True)
    end = bench.look(attempt)
    hold_again(bench, node, attempt)
    assert bench.look(attempt) == end
    assert isinstance(bench.finish(attempt), r.LateFinish)
    assert bench.look(attempt) == end
    assert bench.held(node) == 0
    # A late reserve finds the end, and once that is settled, the tombstone.
    bench(bench.ledger.settle(node.cell, [attempt.attempt_id]))
    assert bench.try_reserve(node, attempt_id=attempt.attempt_id) == r.Gone()
