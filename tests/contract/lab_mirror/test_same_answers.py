"""The same question gets the same answer from the database and from the mirror."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from statistics import stdev as deviation
from typing import Any

import msgspec
import numpy
import pytest
from tests.contract.lab_mirror.corpora import corpus_of, random_corpus_filter
from tests.contract.lab_mirror.world import (
    KINDS,
    NUMBERS,
    TENANT,
    TEXTS,
    Scored,
    asked_of,
    every_row,
    followed,
    in_a_loop,
    plain,
    random_filter,
    random_sort,
    ready,
    world,
)
from tests.unit.lab.scoring.texts import LANGUAGES

from dragoman.lab import statistics
from dragoman.lab.filters import EVERYTHING, Filter, parse_filter
from dragoman.lab.mirror import Mirror, grouped_aggregates, result_places, searcher
from dragoman.lab.model import EvaluatorSpec, ExperimentId, ResultRow
from dragoman.lab.repository.by_hand import turn_passes
from dragoman.lab.repository.certainty import SEED
from dragoman.lab.repository.grouping import field_to_group_by
from dragoman.lab.repository.results import WholeTurn, every_turn
from dragoman.lab.results import Aggregate, Results, Sorting
from dragoman.store import Store

SEEDS = (20_261_115, 20_261_116)
QUESTIONS = 40


async def mirrored_rows(
    store: Store,
    mirror: Mirror,
    experiment_id: ExperimentId,
    wanted: Filter,
    sorting: list[Sorting],
) -> list[ResultRow]:
    """Every row that passes, page by page, as the mirror finds them."""
    every = {
        (turn.key.item_id, turn.key.repetition, turn.row.turn): turn.row
        for turn in await turns_of(store, experiment_id)
    }
    rows: list[ResultRow] = []
    after = None
    while True:
        page = result_places(mirror, asked_of(experiment_id), wanted, sorting, after, 25)
        rows += [every[one.item_id, one.repetition, one.turn_no] for one in page.places]  # type: ignore[index]
        after = page.after
        if after is None:
            return rows


async def turns_of(store: Store, experiment_id: ExperimentId) -> list[WholeTurn]:
    return await store.read(
        lambda c: [turn for some in every_turn(c, experiment_id, None) for turn in some]
    )


@pytest.mark.parametrize("seed", SEEDS)
@in_a_loop
async def test_random_filters_and_sorts_give_the_same_rows(
    seed: int, database_url: str, mirror_url: str
) -> None:
    random = Random(seed)
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(25, repetitions=2)
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
                found = await mirrored_rows(at.store, mirror, experiment_id, wanted, sorting)
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
        experiment_id = await at.new_experiment(25, repetitions=2)
        turns = await turns_of(at.store, experiment_id)
        for _ in range(QUESTIONS):
            tree = random_filter(random)
            wanted = parse_filter(tree)
            found = await every_row(Results(at.store), experiment_id, wanted=wanted)
            expected = [turn.row for turn in turns if turn_passes(turn, wanted, search)]
            assert found == expected, (seed, tree)


@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
@in_a_loop
async def test_aggregates_are_the_same_under_any_filter_and_by_any_group(
    seed: int, repetitions: int, database_url: str, mirror_url: str
) -> None:
    random = Random(seed)
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(60 // repetitions, repetitions=repetitions)
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
                found = grouped_aggregates(
                    mirror, asked_of(experiment_id), wanted, field, repetitions
                )
                told = plain(expected)
                told.pop("annotations")  # the database tells of people, also beside a mirror
                assert plain(found) == told, (seed, tree, group)
                both = await Results(at.store, following).aggregates(
                    TENANT, experiment_id, wanted=wanted, group_by=group
                )
                assert plain(both) == plain(expected), (seed, tree, group)


@pytest.mark.parametrize("seed", SEEDS)
@in_a_loop
async def test_what_people_change_and_take_back_is_filtered_by_at_once_on_both_sides(
    seed: int, database_url: str, mirror_url: str
) -> None:
    random = Random(seed)
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(20, repetitions=2)
        async with followed(at.store, mirror_url) as (following, _):
            await ready(following, experiment_id)
            for _ in range(4):
                await at.change_annotations(experiment_id)
                for _ in range(8):
                    field = random.choice(("annotation.good", "annotation.bad", "annotation.a.b"))
                    leaf = random_filter_of(random, field)
                    wanted = parse_filter(random.choice((leaf, {"not": leaf})))
                    rows = [
                        await every_row(one, experiment_id, wanted=wanted)
                        for one in (Results(at.store, following), Results(at.store))
                    ]
                    assert rows[0] == rows[1], (seed, leaf)


def random_filter_of(random: Random, field: str) -> dict[str, Any]:
    op = random.choice(("=", "<", ">=", "contains", "is_null", "not_null", "in"))
    value: Any = random.choice((*NUMBERS, *TEXTS))
    if op == "contains":
        value = random.choice(TEXTS)
    if op in ("is_null", "not_null"):
        return {"field": field, "op": op}
    return {"field": field, "op": op, "value": [value] if op == "in" else value}


@pytest.mark.parametrize("script", LANGUAGES)
@in_a_loop
async def test_corpus_scores_are_the_libraries_own_under_any_filter(
    script: str, database_url: str, mirror_url: str
) -> None:
    """Over the texts of the rows that pass, as sacrebleu and jiwer score a corpus themselves."""
    seed = SEEDS[0]
    random = Random(f"{seed} {script}")
    async with world(database_url, seed) as at:
        experiment_id, evaluators, own = await corpus_of(at, script, 40)
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            asked = asked_of(experiment_id, evaluators)
            for number in range(8):
                tree = random_corpus_filter(random) if number else None
                wanted = parse_filter(tree)
                rows = await every_row(Results(at.store), experiment_id, wanted=wanted)
                pairs = [
                    (row.output["output"], row.input["reference"]) for row in rows if row.output
                ]
                found = grouped_aggregates(mirror, asked, wanted, None)
                direct = await Results(at.store).aggregates(TENANT, experiment_id, wanted=wanted)
                for name, score in own.items():
                    expected: Any = score(pairs) if pairs else msgspec.UNSET
                    assert found.scores[name].corpus == expected, (script, tree, name)
                    assert direct.scores[name].corpus == expected, (script, tree, name)
                assert found.scores["exact"].corpus is msgspec.UNSET


MANY = 1_100
"""More than are read one by one."""
SHAPES: dict[str, Callable[[Random], float]] = {
    "same": lambda random: 0.1,
    "rate": lambda random: float(random.random() < 0.3),
    "all one": lambda random: 1.0,
    "ties": lambda random: float(random.randrange(7)),
    "plain": lambda random: random.random() * 100,
    "skewed": lambda random: random.lognormvariate(0, 3),
    "close": lambda random: 1.0 + random.randrange(5) * 2**-52,
    "tiny": lambda random: random.randrange(40) * 5e-324,
    "far": lambda random: random.choice((-1.0, 1.0)) * 10.0 ** random.randrange(-9, 12),
    "edges": lambda random: random.randrange(11) / 10,
}


@in_a_loop
async def test_aggregates_of_many_values_are_exact_whatever_their_shape(
    database_url: str, mirror_url: str
) -> None:
    seed = SEEDS[0]
    random = Random(seed)
    evaluators = tuple(EvaluatorSpec("exact", name) for name in SHAPES)
    values = {name: [shape(random) for _ in range(MANY)] for name, shape in SHAPES.items()}
    rows = [
        Scored({"n": number}, {}, [(values[name][number], None) for name in SHAPES])
        for number in range(MANY)
    ]
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(0, evaluators=evaluators)
        await at.add_scored(experiment_id, tuple(SHAPES), rows)
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            asked = asked_of(experiment_id, evaluators)
            found = grouped_aggregates(mirror, asked, EVERYTHING, None)
            direct = await Results(at.store).aggregates(TENANT, experiment_id)
        assert plain(found) == plain(direct)
        for name, listed in values.items():
            score = found.scores[name]
            ordered = sorted(listed)
            for share in (50, 90, 95, 99):
                at_share = ordered[math.ceil(share * MANY / 100) - 1]
                assert getattr(score, f"p{share}") == at_share, (name, share)
            assert score.stddev == pytest.approx(deviation(listed), rel=1e-9), name
            for place, one in enumerate(score.histogram):
                is_last = place == len(score.histogram) - 1
                inside = [v for v in listed if one.low <= v and (v < one.high or is_last)]
                assert one.count == len(inside), (name, one)


@pytest.mark.parametrize("items", [3, 40, 1_200])
@in_a_loop
async def test_intervals_are_those_of_the_labs_statistics(
    items: int, database_url: str, mirror_url: str
) -> None:
    """From the values themselves, though above a thousand only their sums are read."""
    seed = SEEDS[1]
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(items)
        turns = await turns_of(at.store, experiment_id)
        async with followed(at.store, mirror_url) as (following, _):
            await ready(following, experiment_id)
            results = Results(at.store, following)
            rates = parse_filter({"field": "score.exact", "op": "in", "value": [0, 1]})
            for wanted in (EVERYTHING, rates):
                passing = [turn for turn in turns if turn_passes(turn, wanted, searcher())]
                for answering in (results, Results(at.store)):
                    found = await answering.aggregates(TENANT, experiment_id, wanted=wanted)
                    for name in KINDS:
                        check_intervals(found.scores[name], passing, name)


def check_intervals(found: Aggregate, turns: list[WholeTurn], name: str) -> None:
    cells = [turn.row.scores[name] for turn in turns if name in turn.row.scores]
    values = sorted(cell.score for cell in cells if cell.score is not None)
    assert found.count == len(values)
    rng = numpy.random.default_rng(SEED)
    interval = statistics.score_interval(numpy.array(values), rng) if len(values) > 1 else None
    assert found.ci95 == (interval and pytest.approx((interval.low, interval.high), rel=1e-9))
    verdicts = [
        cell.label == "pass"
        for cell in cells
        if cell.score is not None and cell.label in ("pass", "fail")
    ]
    rate = statistics.rate_interval(sum(verdicts), len(verdicts))
    assert found.pass_rate == (sum(verdicts) / len(verdicts) if verdicts else None)
    assert found.pass_rate_ci95 == (rate and pytest.approx((rate.low, rate.high), rel=1e-9))


@in_a_loop
async def test_an_evaluator_that_takes_a_name_over_leaves_the_former_scores_behind(
    database_url: str, mirror_url: str
) -> None:
    """The rows do not change when it does: nothing but the experiment tells whose scores count."""
    seed = SEEDS[0]
    random = Random(seed)
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(30, repetitions=2)
        async with followed(at.store, mirror_url) as (following, _):
            await ready(following, experiment_id)
            before = await every_row(Results(at.store, following), experiment_id)
            assert any("chrf" in row.scores for row in before)
            await at.replace_evaluator(experiment_id, "chrf")
            both = Results(at.store, following), Results(at.store)
            for number in range(10):
                tree = random_filter(random) if number else None
                wanted = parse_filter(tree)
                rows = [await every_row(one, experiment_id, wanted=wanted) for one in both]
                assert rows[0] == rows[1], (seed, tree)
                assert not any("chrf" in row.scores for row in rows[0])
                found = [
                    plain(await one.aggregates(TENANT, experiment_id, wanted=wanted))
                    for one in both
                ]
                assert found[0] == found[1], (seed, tree)
                assert found[0]["scores"]["chrf"]["count"] == 0
            # One that is scored anew has the new score, of the new number.
            await at.score_anew(experiment_id, "chrf", 30)
            rows = [await every_row(one, experiment_id) for one in both]
            assert rows[0] == rows[1]
            assert any("chrf" in row.scores for row in rows[0])
            found = [plain(await one.aggregates(TENANT, experiment_id)) for one in both]
            assert found[0] == found[1]
            assert found[0]["scores"]["chrf"]["count"] > 0
