"""The same question gets the same answer from the database and from the mirror."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from tests.contract.lab_mirror.world import (
    EVALUATORS,
    TENANT,
    every_row,
    followed,
    in_a_loop,
    random_filter,
    random_sort,
    ready,
    rounded,
    world,
)

from dragoman.lab import evaluators
from dragoman.lab.filters import Filter, parse_filter
from dragoman.lab.mirror import Mirror, grouped_aggregates, result_page, searcher
from dragoman.lab.model import ExperimentId, ResultRow
from dragoman.lab.repository.by_hand import turn_passes
from dragoman.lab.repository.grouping import field_to_group_by
from dragoman.lab.repository.results import every_turn
from dragoman.lab.results import Results, Sorting

SEEDS = (20_261_115, 20_261_116)
QUESTIONS = 40


def mirrored_rows(
    mirror: Mirror, experiment_id: ExperimentId, wanted: Filter, sorting: list[Sorting]
) -> list[ResultRow]:
    """Every row that passes, page by page, from the mirror and from nowhere else."""
    rows: list[ResultRow] = []
    after = None
    while True:
        page, after = result_page(mirror, experiment_id, wanted, sorting, after, 25)
        rows += page
        if after is None:
            return rows


@pytest.mark.parametrize("seed", SEEDS)
@in_a_loop
async def test_random_filters_and_sorts_give_the_same_rows(
    seed: int, database_url: str, mirror_url: str
) -> None:
    random = Random(seed)
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(40)
        await at.new_experiment(10)
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            for _ in range(QUESTIONS):
                tree = random_filter(random)
                wanted = parse_filter(tree)
                sorting = [Sorting(field, down) for field, down in random_sort(random)]
                expected = await every_row(
                    Results(at.store), experiment_id, wanted=wanted, sorting=sorting
                )
                found = mirrored_rows(mirror, experiment_id, wanted, sorting)
                assert found == expected, (seed, tree, sorting)
                asked = {"wanted": wanted, "sorting": sorting}
                both = await every_row(Results(at.store, following), experiment_id, **asked)
                assert both == expected, (seed, tree, sorting)


@pytest.mark.parametrize("seed", SEEDS)
@in_a_loop
async def test_random_filters_pass_the_rows_that_they_should(seed: int, database_url: str) -> None:
    """What the database's own way finds, against a plain look at each row."""
    random = Random(seed)
    search = searcher()
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(40)
        turns = await at.store.read(
            lambda c: [turn for some in every_turn(c, experiment_id, None) for turn in some]
        )
        for _ in range(QUESTIONS):
            tree = random_filter(random)
            wanted = parse_filter(tree)
            found = await every_row(Results(at.store), experiment_id, wanted=wanted)
            expected = [turn.row for turn in turns if turn_passes(turn, wanted, search)]
            assert found == expected, (seed, tree)


@pytest.mark.parametrize("seed", SEEDS)
@in_a_loop
async def test_aggregates_are_the_same_under_any_filter_and_by_any_group(
    seed: int, database_url: str, mirror_url: str
) -> None:
    random = Random(seed)
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(60)
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            for number in range(6):
                tree = random_filter(random) if number else None
                group = random.choice((None, "domain", "n", "status", "output.source", "none"))
                wanted = parse_filter(tree)
                expected = await Results(at.store).aggregates(
                    TENANT, experiment_id, wanted=wanted, group_by=group
                )
                field = None if group is None else field_to_group_by(group)
                found = grouped_aggregates(mirror, experiment_id, EVALUATORS, wanted, field)
                assert plain(found) == plain(expected), (seed, tree, group)


@pytest.mark.parametrize("seed", SEEDS)
@in_a_loop
async def test_corpus_scores_follow_from_the_statistics_of_the_rows_that_pass(
    seed: int, database_url: str, mirror_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tells the sums themselves, so that any difference shows.
    monkeypatch.setattr(evaluators, "corpus_score", lambda spec, sums: list(sums), raising=False)
    random = Random(seed)
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(40)
        turns = await at.store.read(
            lambda c: [turn for some in every_turn(c, experiment_id, None) for turn in some]
        )
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            for number in range(8):
                tree = random_filter(random) if number else None
                wanted = parse_filter(tree)
                kept = [
                    turn.statistics["chrf"]
                    for turn in turns
                    if turn_passes(turn, wanted, searcher()) and "chrf" in turn.statistics
                ]
                expected: Any = [float(sum(column)) for column in zip(*kept, strict=True)]
                if not kept:
                    expected = msgspec.UNSET
                found = grouped_aggregates(mirror, experiment_id, EVALUATORS, wanted, None)
                assert found.scores["chrf"].corpus == expected, (seed, tree)
                assert found.scores["exact"].corpus is msgspec.UNSET
                direct = await Results(at.store).aggregates(TENANT, experiment_id, wanted=wanted)
                assert direct.scores["chrf"].corpus == expected, (seed, tree)


def plain(found: object) -> Any:
    return rounded(msgspec.to_builtins(found))
