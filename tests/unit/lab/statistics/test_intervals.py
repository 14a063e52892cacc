"""An interval of 95 % holds the true value in 95 of 100 experiments, within two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, default_rng
from scipy import stats

from dragoman.lab.evaluators import corpus_function
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.statistics import (
    Floats,
    Interval,
    ScoreOf,
    clustered_mean_interval,
    clustered_rate_interval,
    corpus_interval,
    corpus_slopes,
    delta_corpus_interval,
    mean_interval,
    normal_mean_interval,
    of_each,
    percentile_interval,
    percentile_ranks,
    rate_interval,
    score_interval,
)

EXPERIMENTS = 2_000
SEED = 20_261_115


class Metric(NamedTuple):
    """A corpus score over simulated items, for many sums at a time."""

    name: str
    items: Callable[[Generator, int], Floats]
    score: ScoreOf


def n_grams(rng: Generator, count: int, orders: int) -> tuple[Floats, Floats, Floats]:
    """How many n-grams of each order match, of how many in the output and in the reference.

    Longer n-grams match less often; sentences differ in how well they are translated.
    """
    reference = rng.integers(6, 40, count)
    output = np.maximum(orders, reference + rng.integers(-4, 4, count))
    quality = rng.beta(6, 2, count)
    steps = np.arange(orders)
    outputs = np.maximum(output[:, None] - steps, 1).astype(float)
    references = np.maximum(reference[:, None] - steps, 1).astype(float)
    most = np.minimum(outputs, references).astype(int)
    matches = rng.binomial(most, quality[:, None] ** (1 + 0.7 * steps)).astype(float)
    return matches, outputs, references


def bleu_items(rng: Generator, count: int) -> Floats:
    matches, outputs, references = n_grams(rng, count, 4)
    return np.column_stack((outputs[:, 0], references[:, 0], matches, outputs))


def bleu_score(sums: Floats) -> Floats:
    """As sacrebleu's, where every order has matches."""
    lengths, matches, totals = sums[..., :2], sums[..., 2:6], sums[..., 6:]
    short = np.minimum(0.0, 1 - lengths[..., 1] / lengths[..., 0])
    return np.asarray(100 * np.exp(np.mean(np.log(matches / totals), axis=-1) + short))


def chrf_items(rng: Generator, count: int) -> Floats:
    matches, outputs, references = n_grams(rng, count, 6)
    return np.stack((outputs, references, matches), axis=-1).reshape(count, -1)


def chrf_score(sums: Floats) -> Floats:
    """As sacrebleu's: precision and recall are means over the orders, recall counts twice."""
    orders = sums.reshape(*sums.shape[:-1], 6, 3)
    outputs, references, matches = (orders[..., place] for place in range(3))
    precision, recall = (np.mean(matches / of, axis=-1) for of in (outputs, references))
    return np.asarray(100 * 5 * precision * recall / (4 * precision + recall))


def edit_items(rng: Generator, count: int) -> Floats:
    words = rng.integers(3, 30, count)
    return np.column_stack((rng.binomial(words, rng.beta(1, 6, count)), words)).astype(float)


def error_items(rng: Generator, count: int) -> Floats:
    """Hits, substitutions, deletions, insertions."""
    words = rng.integers(3, 30, count)
    wrong = rng.binomial(words, rng.beta(1, 6, count))
    missing = rng.binomial(wrong, 0.3)
    added = rng.poisson(0.2, count)
    return np.column_stack((words - wrong, wrong - missing, missing, added)).astype(float)


def error_rate(sums: Floats) -> Floats:
    return np.asarray(sums[..., 1:].sum(axis=-1) / sums[..., :3].sum(axis=-1))


METRICS = (
    Metric("bleu", bleu_items, bleu_score),
    Metric("chrf", chrf_items, chrf_score),
    Metric("ter", edit_items, lambda sums: np.asarray(100 * sums[..., 0] / sums[..., 1])),
    Metric("wer", error_items, error_rate),
    Metric("cer", error_items, error_rate),
)


def coverage(one: Callable[[Generator], tuple[Interval | None, float]]) -> float:
    """How many of the experiments gave an interval that holds the true value."""
    rng = default_rng(SEED)
    held = 0
    for _ in range(EXPERIMENTS):
        interval, truth = one(rng)
        assert interval is not None
        held += interval.low <= truth <= interval.high
    return held / EXPERIMENTS


def word_errors(rng: Generator, count: int) -> Floats:
    """Half of the sentences are right; the others have errors, a few of them many."""
    errors = rng.gamma(1.0, 0.3, count)
    errors[rng.random(count) < 0.5] = 0
    return errors


SCORES: dict[str, tuple[Callable[[Generator, int], Floats], float]] = {
    "chrf": (lambda rng, count: 100 * rng.beta(5, 2, count), 500 / 7),
    "latency": (lambda rng, count: rng.exponential(120, count), 120.0),
    "wer": (word_errors, 0.15),
}


@pytest.mark.parametrize(
    ("name", "count"), [("chrf", 50), ("latency", 50), ("wer", 50), ("wer", 200)]
)
def test_the_interval_of_a_mean_holds_what_it_promises(name: str, count: int) -> None:
    draw, truth = SCORES[name]
    assert 0.93 <= coverage(lambda rng: (mean_interval(draw(rng, count), rng), truth)) <= 0.97


@pytest.mark.parametrize("count", [50, 300])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_the_interval_of_a_rate_holds_what_it_promises(rate: float, count: int) -> None:
    # There are only so many outcomes: the coverage is a sum over them, and no matter of luck.
    passed = np.arange(count + 1)
    found = [score_interval(yes_and_no(count, int(yes)), default_rng(SEED)) for yes in passed]
    held = [interval is not None and interval.low <= rate <= interval.high for interval in found]
    coverage = float(stats.binom.pmf(passed, count, rate) @ np.array(held))

    # A rate of 50 items can only take 51 values: its coverage jumps by as much as this.
    assert 0.93 <= coverage <= 0.97 + (0.01 if count == 50 else 0)


def yes_and_no(count: int, yes: int) -> Floats:
    return (np.arange(count) < yes).astype(np.float64)


def test_sentences_of_one_speaker_count_as_one_observation() -> None:
    def one(rng: Generator) -> tuple[Interval | None, float]:
        speakers = np.repeat(np.arange(40), rng.integers(1, 8, 40))
        values = rng.normal(0, 1, 40)[speakers] + rng.normal(0, 1, len(speakers))
        return mean_interval(values, rng, clusters=speakers.tolist()), 0.0

    assert 0.93 <= coverage(one) <= 0.97


@pytest.mark.parametrize(
    ("name", "count"),
    # CER counts characters as WER counts words: its simulation would be the same.
    [("bleu", 50), ("chrf", 50), ("ter", 50), ("wer", 50), ("wer", 200)],
)
def test_the_interval_of_a_corpus_score_holds_what_it_promises(name: str, count: int) -> None:
    [metric] = [metric for metric in METRICS if metric.name == name]
    population = metric.items(default_rng(SEED), 20_000)
    truth = float(metric.score(population.sum(axis=0)))

    def one(rng: Generator) -> tuple[Interval | None, float]:
        return corpus_interval(rng.choice(population, count), metric.score, rng), truth

    assert 0.93 <= coverage(one) <= 0.97


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_interval_of_a_corpus_score_of_many_items_holds_what_it_promises(
    metric: Metric,
) -> None:
    """What databases add up of many items: how far each of them moves the score."""
    population = metric.items(default_rng(SEED), 20_000)
    truth = float(metric.score(population.sum(axis=0)))

    def one(rng: Generator) -> tuple[Interval | None, float]:
        items = rng.choice(population, 1_001)
        sums = items.sum(axis=0)
        slopes = corpus_slopes(sums, metric.score)
        assert slopes is not None
        moved = items @ slopes
        squares = float(np.sum((moved - moved.mean()) ** 2))
        return delta_corpus_interval(float(metric.score(sums)), len(items), squares), truth

    assert 0.93 <= coverage(one) <= 0.97


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_simulated_corpora_are_scored_as_the_evaluators_score_theirs(metric: Metric) -> None:
    """The simulations score thousands of corpora at a time; one by one the libraries do."""
    items = metric.items(default_rng(SEED), 500)
    score = corpus_function(EvaluatorSpec(metric.name, metric.name, settings={"reference": "r"}))
    assert score is not None
    for end in (1, 2, 20, 500):
        sums = items[:end].sum(axis=0)
        assert float(metric.score(sums)) == pytest.approx(score(sums.tolist()), rel=1e-12)


def test_a_score_moves_as_fast_as_its_slopes_say() -> None:
    items = METRICS[0].items(default_rng(SEED), 2_000)
    score = corpus_function(EvaluatorSpec("bleu", "bleu", settings={"reference": "r"}))
    assert score is not None
    many = of_each(score)
    slopes = corpus_slopes(items.sum(axis=0), many)
    assert slopes is not None
    left_out = many(items.sum(axis=0) - items)
    moved = many(items.sum(axis=0)) - left_out
    assert items @ slopes == pytest.approx(moved, abs=0.02 * float(np.abs(moved).max()))


def test_a_score_without_slopes_has_no_interval_of_many_items() -> None:
    assert corpus_slopes(np.array([3.0, 5.0]), of_each(lambda sums: None)) is None
    assert delta_corpus_interval(1.0, 1, 0.0) is None


@pytest.mark.parametrize(
    ("share", "count"),
    [(0.5, 50), (0.9, 100), (0.5, 200), (0.9, 200), (0.95, 200), (0.99, 1_000), (0.99, 5_000)],
)
def test_the_interval_of_a_percentile_holds_what_it_promises(share: float, count: int) -> None:
    truth = -np.log(1 - share)

    def one(rng: Generator) -> tuple[Interval | None, float]:
        return percentile_interval(rng.exponential(1, count), share), truth

    assert 0.93 <= coverage(one) <= 0.97


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_values_of_one_item_bound_a_percentile_no_better_than_one_of_them(share: float) -> None:
    """Items that take as long each time they are tried, some of them more often than others."""
    truth = -np.log(1 - share)

    def one(rng: Generator) -> tuple[Interval | None, float]:
        sizes = rng.integers(1, 5, 200)
        values = np.sort(np.repeat(rng.exponential(1, 200), sizes))
        worth = float(sizes.sum() ** 2 / np.sum(sizes**2))
        ranks = percentile_ranks(len(values), share, worth=worth)
        assert ranks is not None
        low, high = (float(values[rank - 1]) for rank in ranks)
        return Interval(low, high), truth

    assert 0.93 <= coverage(one) <= 0.97


def test_the_ranks_that_bound_a_percentile_are_among_the_values() -> None:
    for count in (*range(2, 200), 1_000, 1_000_000):
        for share in (0.5, 0.9, 0.95, 0.99):
            for worth in (None, count / 3, float(count)):
                ranks = percentile_ranks(count, share, worth=worth)
                if ranks is not None:
                    low, high = ranks
                    assert 1 <= low <= math.ceil(share * count) <= high <= count
            assert percentile_ranks(count, share, worth=count) == percentile_ranks(count, share)


def test_few_values_do_not_bound_a_high_percentile() -> None:
    values = default_rng(SEED).exponential(1, 50)
    assert percentile_interval(values, 0.5) is not None
    assert percentile_interval(values, 0.99) is None


def test_large_samples_have_the_interval_of_their_formula() -> None:
    rng = default_rng(SEED)
    values = rng.exponential(1, 5_000)
    short = mean_interval(values, rng)
    formula = normal_mean_interval(5_000, float(values.mean()), float(values.std(ddof=1)))
    assert short is not None
    assert formula is not None
    assert short.low == pytest.approx(formula.low)
    assert short.high == pytest.approx(formula.high)


def test_bootstrap_and_delta_method_agree_where_one_takes_over_from_the_other() -> None:
    rng = default_rng(SEED)
    words = rng.integers(3, 30, 1_001)
    errors = rng.binomial(words, rng.beta(1, 6, 1_001))
    items = np.column_stack((errors, words)).astype(float)

    def rate_of(sums: Floats) -> Floats:
        return np.asarray(sums[..., 0] / sums[..., 1])

    delta = corpus_interval(items, rate_of, rng)
    boot = corpus_interval(items[:1_000], rate_of, rng)
    assert delta is not None
    assert boot is not None
    assert delta.low == pytest.approx(boot.low, rel=0.05)
    assert delta.high == pytest.approx(boot.high, rel=0.05)


def test_what_units_add_up_to_gives_the_interval_of_their_values() -> None:
    """The lab's databases add values up by item, and keep no more than that of many items."""
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(1_200), 3).tolist()
    values = rng.normal(size=3_600) + np.repeat(rng.normal(size=1_200), 3)
    sums = np.bincount(clusters, values)
    squares = float(np.sum((sums - 3 * values.mean()) ** 2))
    whole = mean_interval(values, rng, clusters=clusters)
    added_up = clustered_mean_interval(3_600, float(values.mean()), 1_200, squares)
    assert whole is not None
    assert added_up is not None
    assert (added_up.low, added_up.high) == pytest.approx((whole.low, whole.high))


def test_repetitions_of_an_item_make_a_rate_no_surer() -> None:
    """Items that always pass or always fail tell in five tries what they tell in one."""
    passed, items = 30, 60
    once = rate_interval(passed, items)
    # Of five tries each, the passes of an item are 5 or 0, and 2.5 are to be expected.
    again = clustered_rate_interval(5 * passed, 5 * items, items, items * 2.5**2)
    assert once is not None
    assert again is not None
    assert (again.low, again.high) == pytest.approx((once.low, once.high), abs=0.003)
    # Where tries of one item are as different as those of any two, all of them count.
    free = clustered_rate_interval(150, 300, 60, 60 * 5 * 0.25)
    every = rate_interval(150, 300)
    assert free is not None
    assert every is not None
    assert (free.low, free.high) == pytest.approx((every.low, every.high), abs=0.003)
    assert clustered_rate_interval(5, 5, 1, 0.0) is None, "one item tells nothing of the others"


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_interval_of_a_rate_of_clusters_holds_what_it_promises(rate: float) -> None:
    sizes = np.tile([1, 2, 3], 20)

    def one(rng: Generator) -> tuple[Interval | None, float]:
        # Beta-binomial: the tries of an item are alike, with a correlation of one half.
        passes = rng.binomial(sizes, rng.beta(rate, 1 - rate, size=len(sizes)))
        passed, count = int(passes.sum()), int(sizes.sum())
        squares = float(np.sum((passes - sizes * passed / count) ** 2))
        return clustered_rate_interval(passed, count, len(sizes), squares), rate

    assert 0.93 <= coverage(one) <= 0.97


def test_nothing_is_claimed_about_a_single_value() -> None:
    rng = default_rng(SEED)
    assert mean_interval(np.array([1.0]), rng) is None
    assert rate_interval(0, 0) is None
    assert mean_interval(np.array([2.0, 2.0, 2.0]), rng) == Interval(2.0, 2.0)


def test_the_same_rows_and_seed_give_the_same_interval() -> None:
    values = default_rng(1).exponential(1, 80)
    assert mean_interval(values, default_rng(5)) == mean_interval(values, default_rng(5))


few = st.lists(
    st.one_of(
        st.floats(0, 100, allow_subnormal=False),
        st.sampled_from([0.0, 1.0, 92.49367, 99.99999999999999, 100.0]),
    ),
    min_size=2,
    max_size=60,
)


@given(values=few, seed=st.integers(0, 1_000))
@settings(max_examples=200, deadline=None)
def test_the_interval_of_a_mean_is_finite_and_holds_the_mean(
    values: list[float], seed: int
) -> None:
    mean = float(np.mean(values))
    found = mean_interval(np.array(values), default_rng(seed))
    assert found is not None
    assert math.isfinite(found.low)
    assert math.isfinite(found.high)
    assert found.low <= mean + 1e-9
    assert found.high >= mean - 1e-9
    assert found.high - found.low <= 20 * (max(values) - min(values)) + 1e-6
    cut = found.within(0.0, 100.0)
    assert 0 <= cut.low <= cut.high <= 100


@pytest.mark.parametrize("values", [[1, 1, 1, 0], [0, 1], [92.5, 92.5, 80.25], [1] * 19 + [0.5]])
def test_values_of_which_some_are_the_same_bound_their_mean_on_both_sides(
    values: list[float],
) -> None:
    found = mean_interval(np.array(values, dtype=float), default_rng(SEED))
    assert found is not None
    mean = float(np.mean(values))
    assert found.low < mean < found.high
    assert found.high - mean == pytest.approx(mean - found.low), "Student's t"


def test_values_that_differ_by_how_numbers_are_kept_are_the_same() -> None:
    values = np.array([92.49367, 92.49367 * (1 + 2e-16), 92.49367 * (1 - 2e-16)])
    found = mean_interval(values, default_rng(SEED))
    assert found is not None
    assert found.high - found.low < 1e-9


@pytest.mark.parametrize("count", [3, 6, 9])
def test_the_interval_of_a_few_values_holds_what_it_promises(count: int) -> None:
    def one(rng: Generator) -> tuple[Interval | None, float]:
        return mean_interval(rng.normal(5, 1, count), rng), 5.0

    assert 0.93 <= coverage(one) <= 0.97
