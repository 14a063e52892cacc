"""Scores hour by hour, on every database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from tests.contract.lab_repository.bench import EXPERIMENT, Bench

from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.repository import hours
from dragoman.lab.repository.tables import evaluator_record
from dragoman.store import StoreConnection

HOUR_MS = hours.HOUR_MS
EVALUATORS = [EvaluatorSpec("exact", "exact")]
GIVEN = [
    (HOUR_MS - 1, 1.0),  # before the time that is asked for
    (5 * HOUR_MS, 1.0),
    (5 * HOUR_MS + 7, 0.0),
    (6 * HOUR_MS - 1, 1.0),
    (8 * HOUR_MS, 0.25),
    (9 * HOUR_MS, None),  # it could not be scored
]
"""When each item was scored, and how."""


def scored(bench: Bench) -> None:
    """An item for each score."""
    item_ids = bench.with_items(len(GIVEN))
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    for lease in bench.take(run, item_ids):
        bench.finish(lease)
    bench.archive(run)

    def give(connection: StoreConnection) -> None:
        for item_id, (at_ms, score) in zip(item_ids, GIVEN, strict=True):
            of_item = evaluator_record.c.item_id == item_id
            given = {"created_at_ms": at_ms, "score": score}
            connection.execute(sa.update(evaluator_record).where(of_item).values(given))

    bench.write(give)


def test_scores_are_added_up_by_the_hour_in_which_they_were_given(bench: Bench) -> None:
    scored(bench)
    found = bench.read(lambda c: hours.scores_by_hour(c, EXPERIMENT, EVALUATORS, None, HOUR_MS))
    assert [one.began_at_ms for one in found] == [5 * HOUR_MS, 8 * HOUR_MS]
    many, one = (hour.scores["exact"] for hour in found)
    assert many.count == 3
    assert many.mean == pytest.approx(2 / 3)
    assert many.ci95 is not None
    low, high = many.ci95
    assert 0 <= low < 2 / 3 < high <= 1, "a rate stays between none and all"
    assert (one.count, one.mean, one.ci95) == (1, 0.25, None)


def test_scores_of_evaluators_that_are_not_asked_for_are_left_out(bench: Bench) -> None:
    scored(bench)
    assert bench.read(lambda c: hours.scores_by_hour(c, EXPERIMENT, EVALUATORS, {1}, HOUR_MS)) == []
