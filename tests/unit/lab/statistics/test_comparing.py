"""A comparison raises a false alarm as rarely as it says, and finds what it says it can find."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from dragoman.lab.statistics import (
    Difference,
    Floats,
    Interval,
    Verdict,
    compare_corpora,
    compare_means,
    holm,
    items_needed,
    not_worse,
)

EXPERIMENTS = 1_000
SEED = 20_261_115


def rate_of(sums: Floats) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1])


def test_equal_systems_are_told_apart_in_one_of_twenty_experiments_at_most() -> None:
    rng = default_rng(SEED)
    alarms = 0
    for _ in range(EXPERIMENTS):
        ease = rng.beta(5, 2, 60)
        one, other = ease + rng.normal(0, 0.1, 60), ease + rng.normal(0, 0.1, 60)
        p = compare_means(one, other, rng).p
        assert p is not None
        alarms += p < 0.05
    # Three standard errors of a share of 5 %.
    assert alarms / EXPERIMENTS <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / EXPERIMENTS)


def test_a_difference_as_large_as_announced_is_found_in_four_of_five_experiments() -> None:
    rng = default_rng(SEED)
    found = 0
    announced = compare_means(np.zeros(80), rng.normal(0, 0.1, 80), rng).detectable
    assert announced is not None
    true_spread = 0.1
    expected = (stats.t.ppf(0.975, 79) + stats.t.ppf(0.8, 79)) * true_spread / np.sqrt(80)
    for _ in range(EXPERIMENTS):
        ease = rng.beta(5, 2, 80)
        p = compare_means(ease, ease + rng.normal(expected, true_spread, 80), rng).p
        assert p is not None
        found += p < 0.05
    assert 0.76 <= found / EXPERIMENTS <= 0.84


def test_corpus_scores_of_equal_systems_are_told_apart_as_rarely() -> None:
    rng = default_rng(SEED)
    alarms, experiments = 0, 500
    for _ in range(experiments):
        words = rng.integers(3, 30, 60)
        hard = rng.beta(1, 6, 60)
        both = [np.column_stack((rng.binomial(words, hard), words)).astype(float) for _ in "ab"]
        own = (rate_of(both[0]), rate_of(both[1]))
        p = compare_corpora(both[0], both[1], rate_of, rng, item_scores=own).p
        assert p is not None
        alarms += p < 0.05
    assert alarms / experiments <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / experiments)


def test_the_p_value_of_few_items_is_scipys() -> None:
    rng = default_rng(SEED)
    for count in (5, 9, 12):
        one, other = rng.normal(0, 1, count), rng.normal(0.5, 1, count)
        exact = stats.permutation_test(
            (one, other),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        )
        assert compare_means(one, other, rng).p == pytest.approx(exact.pvalue)


def test_the_p_value_of_yes_and_no_is_that_of_mcnemars_exact_test() -> None:
    rng = default_rng(SEED)
    one = np.array([1.0] * 20 + [0.0] * 12)
    other = np.array([1.0] * 12 + [0.0] * 8 + [1.0] * 3 + [0.0] * 9)
    expected = stats.binomtest(3, 11).pvalue
    assert compare_means(one, other, rng).p == pytest.approx(expected)


def test_the_p_value_of_many_items_is_that_of_the_normal_distribution() -> None:
    rng = default_rng(SEED)
    one = rng.normal(0, 1, 4_000)
    other = one + rng.normal(0.03, 1, 4_000)
    expected = stats.ttest_rel(one, other).pvalue
    assert compare_means(one, other, rng).p == pytest.approx(expected, rel=0.05)


def test_wins_losses_and_delta_say_which_system_is_better() -> None:
    rng = default_rng(SEED)
    errors = compare_means(
        np.array([0.5, 0.2, 0.1]), np.array([0.1, 0.2, 0.3]), rng, higher_is_better=False
    )
    assert (errors.wins, errors.losses, errors.ties) == (1, 1, 1)
    assert errors.delta == pytest.approx(-0.2 / 3)


def test_speakers_are_swapped_whole() -> None:
    rng = default_rng(SEED)
    speakers = [name for name in "abcdef" for _ in range(20)]
    shift = np.repeat(rng.normal(0, 1, 6), 20)
    one = rng.normal(0, 1, 120)
    alone = compare_means(one, one + shift, rng).p
    together = compare_means(one, one + shift, rng, clusters=speakers).p
    assert alone is not None
    assert together is not None
    assert together > alone
    assert together >= 2 / 2**6


def test_holm_corrects_as_published() -> None:
    assert holm([0.01, 0.04, 0.03, None]) == pytest.approx([0.03, 0.06, 0.06, None], nan_ok=True)
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def difference(delta: float, error: float, p: float = 1.0, units: int = 200) -> Difference:
    return Difference(
        count=200,
        units=units,
        delta=delta,
        ci95=Interval(delta - 2 * error, delta + 2 * error),
        p=p,
        effect=None,
        wins=0,
        losses=0,
        ties=200,
        detectable=None,
        error=error,
    )


@pytest.mark.parametrize(
    ("delta", "error", "margin", "verdict"),
    [
        (0.0, 0.1, 0.5, Verdict.PASS),
        (-0.2, 0.1, 0.5, Verdict.PASS),
        (-0.4, 0.1, 0.5, Verdict.INCONCLUSIVE),
        (-1.0, 0.1, 0.5, Verdict.FAIL),
    ],
)
def test_not_worse_by_a_margin_passes_only_when_it_can_be_told(
    delta: float, error: float, margin: float, verdict: Verdict
) -> None:
    assert not_worse(difference(delta, error), margin=margin) is verdict
    mirrored = difference(-delta, error)
    assert not_worse(mirrored, margin=margin, higher_is_better=False) is verdict


def test_few_speakers_tell_less_than_many_items_with_the_same_error() -> None:
    assert not_worse(difference(-0.3, 0.1), margin=0.5) is Verdict.PASS
    assert not_worse(difference(-0.3, 0.1, units=4), margin=0.5) is Verdict.INCONCLUSIVE


def test_the_items_needed_do_not_depend_on_which_end_of_the_scale_is_good() -> None:
    errors = items_needed(difference(0.4, 0.1), margin=0.5, higher_is_better=False)
    assert errors == items_needed(difference(-0.4, 0.1), margin=0.5)


def test_without_a_margin_only_a_significant_loss_fails() -> None:
    assert not_worse(difference(-0.2, 0.1, p=0.2)) is Verdict.PASS
    assert not_worse(difference(-0.2, 0.05, p=0.001)) is Verdict.FAIL
    assert not_worse(difference(0.2, 0.05, p=0.001)) is Verdict.PASS


def test_the_items_that_are_asked_for_decide() -> None:
    rng = default_rng(SEED)
    found = difference(-0.4, 0.1)
    more = items_needed(found, margin=0.5)
    assert more is not None
    assert more > 200
    spread = 0.1 * np.sqrt(200)
    decided = 0
    for _ in range(400):
        values = rng.normal(-0.4, spread, more)
        tried = compare_means(np.zeros(more), values, rng)
        decided += not_worse(tried, margin=0.5) is Verdict.PASS
    assert decided / 400 > 0.72


def test_clusters_of_unequal_size_add_no_error_of_their_own() -> None:
    rng = default_rng(SEED)
    speakers = [
        name for name, lines in (("a", 3), ("b", 40), ("c", 9), ("d", 20)) for _ in range(lines)
    ]
    one = rng.normal(0, 1, len(speakers))
    found = compare_means(one, one - 0.4, rng, clusters=speakers)
    assert found.error == pytest.approx(0, abs=1e-9)
    assert not_worse(found, margin=0.5) is Verdict.PASS
    assert not_worse(found, margin=0.3) is Verdict.FAIL


def test_the_error_of_clusters_is_that_of_the_interval() -> None:
    rng = default_rng(SEED)
    spread = []
    for _ in range(2_000):
        sizes = rng.integers(1, 30, 40)
        speakers = np.repeat(np.arange(40), sizes)
        shift = np.repeat(rng.normal(-1, 0.5, 40), sizes)
        found = compare_means(np.zeros(len(shift)), shift, rng, clusters=list(speakers))
        assert found.error is not None
        spread.append((found.delta, found.error))
    deltas, errors = np.array(spread).T
    # How far the difference strays from experiment to experiment is what each says it does.
    assert np.mean(errors) == pytest.approx(np.std(deltas), rel=0.1)
