"""The same question gets the same answer from the database and from the mirror."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from dragoman.lab.evaluators import corpus_function, score_range
from dragoman.lab.filters import EVERYTHING, Filter, parse_filter
from dragoman.lab.mirror import (
    Mirror,
    corpora,
    grouped_aggregates,
    result_places,
    searcher,
    spreading,
)
from dragoman.lab.mirror.batches import Slots
from dragoman.lab.mirror.queries import Query
from dragoman.lab.model import EvaluatorSpec, ExperimentId, ItemId, ResultRow
from dragoman.lab.repository import field_to_group_by
from dragoman.lab.repository.by_hand import turn_passes
from dragoman.lab.repository.certainty import SEED
from dragoman.lab.repository.result_rows import WholeTurn, every_turn
from dragoman.lab.results import Aggregate, Results, Sorting
from dragoman.lab.statistics import Interval
from dragoman.store import Store

SEEDS = (20_261_115, 20_261_116)
QUESTIONS = 30
CLUSTERS = ("domain", "n", "status", "output.source", "annotation.good")
GROUPS = ("domain", "n", "status", "output.source", "none", "annotation.good")


def mirrored_rows(
    turns: list[WholeTurn],
    mirror: Mirror,
    experiment_id: ExperimentId,
    wanted: Filter,
    sorting: list[Sorting],
) -> list[ResultRow]:
    """Every row that passes, page by page, as the mirror finds them."""
    every = {(turn.key.item_id, turn.key.repetition, turn.row.turn): turn.row for turn in turns}
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
            turns = await turns_of(at.store, experiment_id)
            for _ in range(QUESTIONS):
                tree = random_filter(random)
                wanted = parse_filter(tree)
                sorting = [Sorting(field, down) for field, down in random_sort(random)]
                expected = await every_row(
                    Results(at.store), experiment_id, wanted=wanted, sorting=sorting
                )
                found = mirrored_rows(turns, mirror, experiment_id, wanted, sorting)
                assert found == expected, (seed, tree, sorting)
                asked = {"wanted": wanted, "sorting": sorting}
                both = await every_row(Results(at.store, following), experiment_id, **asked)
                assert both == expected, (seed, tree, sorting)
                for results in (Results(at.store), Results(at.store, following)):
                    count = await results.count(TENANT, experiment_id, wanted=wanted)
                    assert count == len(expected), (seed, tree)


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


@pytest.mark.parametrize(("seed", "repetitions"), [(SEEDS[0], 1), (SEEDS[1], 3)])
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
                group = random.choice((*GROUPS, None))
                cluster = random.choice((*CLUSTERS, None, None, None))
                asked: dict[str, Any] = {"group_by": group, "cluster": cluster}
                wanted = parse_filter(tree)
                expected = await Results(at.store).aggregates(
                    TENANT, experiment_id, wanted=wanted, **asked
                )
                field, unit = (one and field_to_group_by(one) for one in (group, cluster))
                found = grouped_aggregates(
                    mirror, asked_of(experiment_id), wanted, field, repetitions, unit
                )
                told = plain(expected)
                told.pop("annotations")  # the database tells of people, also beside a mirror
                assert plain(found) == told, (seed, tree, asked)
                both = await Results(at.store, following).aggregates(
                    TENANT, experiment_id, wanted=wanted, **asked
                )
                assert plain(both) == plain(expected), (seed, tree, asked)


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
        experiment_id, evaluators, own = await corpus_of(at, script, 30)
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            asked = asked_of(experiment_id, evaluators)
            for number in range(5):
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


MANY = 1_200
"""More than are read one by one; so are nine tenths of them, but not the rest."""
PARTS = ("few", *("most",) * 9)
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


class Counted(Mirror):
    """A mirror that counts what it is asked."""

    def __init__(self, mirror: Any) -> None:
        self._mirror = mirror
        self.dialect = mirror.dialect
        self.has_snapshots = mirror.has_snapshots
        self.asks = 0

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self._mirror.reading() as self._reader:
            yield self

    def ask(self, query: Query) -> list[tuple[Any, ...]]:
        self.asks += 1
        return self._reader.ask(query)  # type: ignore[no-any-return]

    def slots(self, experiment_id: ExperimentId) -> Slots:
        return self._reader.slots(experiment_id)  # type: ignore[no-any-return]

    identity = begin = apply = set_complete = tidy = close = None  # type: ignore[assignment]


@in_a_loop
async def test_aggregates_of_many_values_are_exact_whatever_their_shape(
    database_url: str, mirror_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "MOST_HELD", 50)  # as if they were millions
    seed = SEEDS[0]
    random = Random(seed)
    evaluators = tuple(EvaluatorSpec("exact", name) for name in SHAPES)
    values = {name: [shape(random) for _ in range(MANY)] for name, shape in SHAPES.items()}
    rows = [
        Scored(
            {"n": number, "part": PARTS[number % 10]},
            {},
            [(values[name][number], None) for name in SHAPES],
        )
        for number in range(MANY)
    ]
    async with world(database_url, seed) as at:
        experiment_id = await at.new_experiment(0, evaluators=evaluators)
        await at.add_scored(experiment_id, tuple(SHAPES), rows)
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            asked = asked_of(experiment_id, evaluators)
            whole = Counted(mirror)
            found = grouped_aggregates(whole, asked, EVERYTHING, None)
            direct = await Results(at.store).aggregates(TENANT, experiment_id)
            assert plain(found) == plain(direct)
            asks = []
            for group in ("part", "n"):
                counted = Counted(mirror)
                field = field_to_group_by(group)
                parts = grouped_aggregates(counted, asked, EVERYTHING, field)
                asks.append(counted.asks - whole.asks)
                direct = await Results(at.store).aggregates(TENANT, experiment_id, group_by=group)
                assert plain(parts) == plain(direct), group
            # Two groups, one of them large, or fifty small ones: the questions are as few.
            assert asks[1] <= asks[0] <= 8
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


@pytest.mark.parametrize("items", [3, 40, 200])
@in_a_loop
async def test_intervals_are_those_of_the_labs_statistics(
    items: int, database_url: str, mirror_url: str
) -> None:
    """From what the values of each item add up to, which databases do."""
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


@pytest.mark.parametrize("items", [2, 60, 1_200])
@in_a_loop
async def test_corpus_scores_and_percentiles_have_the_intervals_of_the_labs_statistics(
    items: int, database_url: str, mirror_url: str
) -> None:
    """Of few items they are drawn from what each adds up to, of many from what all add up to."""
    async with world(database_url, SEEDS[0]) as at:
        experiment_id, evaluators, own = await corpus_of(at, "latin", items)
        turns = await turns_of(at.store, experiment_id)
        async with followed(at.store, mirror_url) as (following, _):
            await ready(following, experiment_id)
            both = Results(at.store, following), Results(at.store)
            # Of 1,200 items a part has more than a thousand, and so many speakers there are.
            asked: list[dict[str, Any]] = [
                {},
                {"group_by": "part"},
                {"cluster": "domain"},
                {"cluster": "speaker"},
                {"group_by": "part", "cluster": "speaker"},
                {"wanted": parse_filter({"field": "score.chrf", "op": ">", "value": 30})},
            ]
            for question in asked:
                mirrored, direct = [
                    await one.aggregates(TENANT, experiment_id, **question) for one in both
                ]
                assert plain(mirrored) == plain(direct), question
                wanted = question.get("wanted", EVERYTHING)
                passing = [turn for turn in turns if turn_passes(turn, wanted, searcher())]
                cluster = question.get("cluster")
                for name in own:
                    check_corpus(mirrored.scores[name], passing, evaluators, name, cluster)


@in_a_loop
async def test_of_very_many_rows_some_tell_how_sure_a_corpus_score_is(
    database_url: str, mirror_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(database_url, SEEDS[0]) as at:
        experiment_id, evaluators, own = await corpus_of(at, "latin", MANY)
        async with followed(at.store, mirror_url) as (following, _):
            mirror = await ready(following, experiment_id)
            asked = asked_of(experiment_id, evaluators)
            every = grouped_aggregates(mirror, asked, EVERYTHING, None)
            monkeypatch.setattr(corpora, "SAMPLED_ROWS", 400)
            monkeypatch.setattr(corpora, "BLOCK_ROWS", 16)
            some = grouped_aggregates(mirror, asked, EVERYTHING, None)
        for name in own:
            exact, found = every.scores[name], some.scores[name]
            assert found.corpus == exact.corpus, "the score itself is of all rows"
            assert exact.corpus_ci95 is not None
            assert found.corpus_ci95 is not None
            width, seen = (high - low for low, high in (exact.corpus_ci95, found.corpus_ci95))
            assert seen != width, "all rows were looked at"
            # Of 400 rows: their spread is known to a thirtieth.
            assert seen == pytest.approx(width, rel=0.15), name


def check_corpus(
    found: Aggregate,
    turns: list[WholeTurn],
    evaluators: tuple[EvaluatorSpec, ...],
    name: str,
    cluster: str | None,
) -> None:
    [evaluator] = [one for one in evaluators if one.name == name]
    units: dict[object, Any] = {}
    values = []
    for turn in turns:
        [judged] = [one for one in turn.judged.values() if one.name == name]
        unit = turn.key.item_id if cluster is None else turn.row.input[cluster]
        statistics_ = numpy.array(judged.statistics, dtype=float)
        units[unit] = units.get(unit, 0) + statistics_
        values.append(judged.cell.score)
    parts = numpy.array(sorted(part.tolist() for part in units.values()))
    score = corpus_function(evaluator)
    assert score is not None
    expected = None
    if len(parts) > 1:
        rng = numpy.random.default_rng(SEED)
        expected = statistics.corpus_interval(parts, statistics.of_each(score), rng)
    assert (found.corpus_ci95 is None) == (expected is None)
    if expected is not None:
        # Beyond a thousand units the reference leaves each out in turn: almost the same.
        close = 1e-9 if len(parts) <= 1_000 else 0.003
        bounds = (expected.low, expected.high)
        assert found.corpus_ci95 == pytest.approx(bounds, rel=close), name
    if cluster is None:
        for share in (50, 90, 95, 99):
            interval = statistics.percentile_interval(numpy.array(values), share / 100)
            around = None if interval is None else (interval.low, interval.high)
            assert getattr(found, f"p{share}_ci95") == around, (name, share)


def check_intervals(found: Aggregate, turns: list[WholeTurn], name: str) -> None:
    """The turns of one item belong together: they are no observations of their own."""
    cells = [(turn.key.item_id, turn.row.scores[name]) for turn in turns if name in turn.row.scores]
    values = [(item, cell.score) for item, cell in cells if cell.score is not None]
    assert found.count == len(values)
    interval = score_interval(values)
    least, most = score_range(EvaluatorSpec(KINDS[name], name, settings={"reference": "r"}))
    if interval and found.mean is not None and least <= found.mean <= most:
        interval = interval.within(least, most)
    assert found.ci95 == (interval and pytest.approx((interval.low, interval.high), rel=1e-9))
    verdicts = [
        (item, float(cell.label == "pass"))
        for item, cell in cells
        if cell.score is not None and cell.label in ("pass", "fail")
    ]
    rate = score_interval(verdicts, fewest=1)
    passing = sum(verdict for _, verdict in verdicts)
    assert found.pass_rate == (passing / len(verdicts) if verdicts else None)
    assert found.pass_rate_ci95 == (rate and pytest.approx((rate.low, rate.high), rel=1e-9))


def score_interval(values: list[tuple[ItemId, float]], fewest: int = 2) -> Interval | None:
    """In the order in which the lab draws units: by size, then by sum."""
    if len(values) < fewest:
        return None
    sums, sizes = Counter[str](), Counter[str]()
    for item, value in values:
        sums[item] += value  # type: ignore[assignment]
        sizes[item] += 1
    place = {item: (sizes[item], sums[item]) for item in sums}
    values = sorted(values, key=lambda one: (*place[one[0]], one[0]))
    return statistics.score_interval(
        numpy.array([value for _, value in values]),
        numpy.random.default_rng(SEED),
        clusters=[item for item, _ in values],
    )


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
            for number in range(5):
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
