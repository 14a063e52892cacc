"""Gates: what an experiment must reach."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.cli.experiment.gate import Calibrated, GateVerdict, NotWorse, Unmet, judge, read_gate
from dragoman.errors import SettingsError
from dragoman.lab.comparison import Compared, ComparedRun, Comparison, Finding, LeftOut, RunLabel
from dragoman.lab.repository.aggregates import NOTHING
from dragoman.lab.results import Aggregates, Failures

REACHED = Aggregates(
    scores={
        "exact": msgspec.structs.replace(NOTHING, count=10, errors=1, mean=0.8, pass_rate=0.75),
        "a.b": msgspec.structs.replace(NOTHING, count=0),
        "chrf": msgspec.structs.replace(
            NOTHING,
            count=10,
            corpus=44.0,
            corpus_ci95=(42.5, 45.5),
            p50=40.0,
            p50_ci95=(30.0, 50.0),
        ),
    },
    latency_ms=msgspec.structs.replace(
        NOTHING, count=10, p95=120.0, mean=60.0, p50_ci95=(40.0, 80.0)
    ),
    tokens=NOTHING,
    cost=NOTHING,
)


SCORES = ("exact", "a.b", "nothing", "chrf")


@pytest.mark.parametrize(
    ("key", "limit", "passes"),
    [
        ("exact.mean", ">= 0.8", True),
        ("exact.mean", "> 0.8", False),
        ("exact.mean", "<1e0", True),
        ("exact.count", "== 10", True),
        ("exact.count", "= 9", False),
        ("exact.errors", "<= 1", True),
        ("exact.errors", "!= 1", False),
        ("exact.pass_rate", ">= 0.75", True),
        ("a.b.count", "< 1", True),
        ("latency_ms.p95", "<= 120", True),
        ("latency_ms.mean", "< 60", False),
        ("chrf.corpus_ci95.low", ">= 42.5", True),
        ("chrf.corpus_ci95.high", "< 45", False),
        ("chrf.p50_ci95.low", ">= 30", True),
        ("latency_ms.p50_ci95.high", "< 80", False),
        ("cost.total", "<= 0", True),
        ("failures.items", "<= 0", True),
        ("failures.share", "> 0", False),
        # What is not there never holds.
        ("exact.corpus", "< 1", False),
        ("exact.repetitions.within", "< 1", False),
        ("chrf.p99_ci95.low", ">= 0", False),
        ("tokens.p50", "< 1", False),
        ("a.b.mean", "< 1", False),
        ("a.b.pass_rate", "< 1", False),
        ("nothing.count", ">= 0", False),
    ],
)
def test_a_gate_holds_or_not(key: str, limit: str, passes: bool) -> None:
    verdict, failed = judge(read_gate({key: limit}, SCORES, "exp.toml"), REACHED)
    assert verdict.passed is passes
    assert failed.passed


@pytest.mark.parametrize(
    ("written", "share", "passes"),
    [
        ({"exact.mean": ">= 0"}, 0.0, True),
        # Nothing is said of it: then no item may be without a score.
        ({"exact.mean": ">= 0"}, 0.001, False),
        ({}, 0.001, False),
        ({"max_failed": 0.02}, 0.02, True),
        ({"max_failed": 0.02}, 0.021, False),
        ({"max_failed": 1}, 1.0, True),
    ],
)
def test_a_gate_limits_the_share_of_items_without_a_score(
    written: dict[str, object], share: float, passes: bool
) -> None:
    reached = msgspec.structs.replace(REACHED, failures=Failures(items=1, share=share))
    verdicts = judge(read_gate(written, SCORES, "exp.toml"), reached)
    assert all(verdict.passed for verdict in verdicts) is passes


def test_a_gate_on_what_the_target_does_not_report_says_so() -> None:
    verdict, _ = judge(read_gate({"tokens.p50": "< 1"}, SCORES, "exp.toml"), REACHED)
    assert str(verdict) == "tokens.p50 < 1: the target reports no tokens"


def test_a_gate_on_a_bound_that_too_few_items_give_says_so() -> None:
    verdict, _ = judge(read_gate({"chrf.p99_ci95.low": ">= 0"}, SCORES, "exp.toml"), REACHED)
    assert str(verdict) == (
        "chrf.p99_ci95.low >= 0: 10 values do not bound this figure; more items would"
    )


def test_a_file_without_a_gate_asks_for_nothing() -> None:
    assert read_gate(None, SCORES, "exp.toml") == ()


def test_a_gate_may_be_written_without_quotation_marks() -> None:
    assert read_gate({"exact": {"mean": "> 1"}}, SCORES, "x") == read_gate(
        {"exact.mean": "> 1"}, SCORES, "x"
    )


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        ("exact", ">= 1"),
        ("exact.p55", ">= 1"),
        ("exact.ci95", ">= 1"),
        ("exact.repetitions.pass_at_k.0", ">= 1"),
        ("latency_ms.corpus", ">= 1"),
        ("failures.mean", "<= 1"),
        ("failures", "<= 1"),
        ("exact", "not worse"),
        ("exact", "not worse than yesterday"),
        ("exact", "not worse than last by 0"),
        ("exact", "not worse than last by -1"),
        ("exact", "not worse than ''"),
        ("exact.p50", "not worse than last"),
        ("latency_ms.corpus", "not worse than last"),
        ("exact.corpus", "not worse than last"),
        ("exact.corpus", ">= 1"),
        ("exact.corpus_ci95.low", ">= 1"),
        ("exact.corpus_ci95", ">= 1"),
        ("latency_ms.corpus_ci95.low", ">= 1"),
        ("exact.p95_ci95", ">= 1"),
        ("exact.p95_ci95.middle", ">= 1"),
        ("ratio", "not worse than last"),
        ("on_inconclusive", "warn"),
        ("on_inconclusiv", "fail"),
        ("require_calibrated", True),
        (".mean", ">= 1"),
        ("exact.mean", "high"),
        # No figure reaches these, and every one is below them.
        ("exact.mean", "<= 1e400"),
        ("exact.mean", ">= -1e400"),
        ("exact", "not worse than last by 1e400"),
        # Known before anything is run, and paid for.
        ("exactly.mean", ">= 1"),
        ("exact.mean", 1),
        ("max_failed", ">= 1"),
        ("max_failed", 2),
        ("max_failed", True),
        ("max_fail", 0.1),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(key: str, limit: object) -> None:
    with pytest.raises(SettingsError, match=r"exp\.toml.*gate"):
        read_gate({key: limit}, [*SCORES, "ratio"], "exp.toml", KINDS)


KINDS = {"exact": "exact", "ratio": "length_ratio"}


# --- compared with another run -------------------------------------------------------------------


def change(delta: float, error: float, p: float, *, higher: bool | None = True) -> Compared:
    return Compared(
        baseline=50.0,
        other=50.0 + delta,
        delta=delta,
        ci95=(delta - 2 * error, delta + 2 * error),
        p=1.0,
        p_alone=p,
        effect_size=None,
        wins=0,
        losses=0,
        ties=0,
        detectable=None,
        standard_error=error,
        paired=200,
        units=200,
        finding=Finding.UNCLEAR,
        higher_is_better=higher,
        left_out=LeftOut(),
        in_words="",
    )


def comparison(**scores: Compared) -> Comparison:
    run = ComparedRun(
        experiment_id="e-2",
        name="new",
        status="success",
        run_id=None,
        scores=scores,
        refused={"bleu": ["libraries.sacrebleu is 2.4 in one and 2.5 in the other"]},
    )
    return Comparison(
        baseline=RunLabel("e-1", "old", "success", None), others=(run,), questions=len(scores)
    )


def judged(written: dict[str, object], found: Comparison | Unmet) -> list[GateVerdict]:
    gate = read_gate(written, ("chrf", "bleu", "wer"), "exp.toml")
    baselines: set[str | None] = {one.baseline for one in gate if isinstance(one, NotWorse)}
    return judge(gate, REACHED, dict.fromkeys(baselines, found))[:-1]


def test_a_baseline_is_named_in_quotation_marks_or_the_last() -> None:
    gate = read_gate(
        {
            "exact": "not worse than 'apertium en-es' by 0.5",
            "a.b": 'not worse than "it\'s"',
            "nothing": "not worse than  last",
            "latency_ms": "not worse than 'last' by 1e1",
        },
        SCORES,
        "exp.toml",
    )
    assert gate[:-1] == (
        NotWorse("exact", "exact", "apertium en-es", 0.5),
        NotWorse("a.b", "a.b", "it's"),
        NotWorse("nothing", "nothing", None),
        NotWorse("latency_ms", "latency_ms", "last", 10.0),
    )


@pytest.mark.parametrize(
    ("delta", "error", "p", "limit", "word"),
    [
        (-0.2, 0.1, 0.05, "not worse than last by 0.5", "pass"),
        (-0.4, 0.1, 0.0001, "not worse than last by 0.5", "inconclusive"),
        (-1.0, 0.1, 0.0001, "not worse than last by 0.5", "fail"),
        (-0.2, 0.1, 0.06, "not worse than last", "pass"),
        (-0.2, 0.1, 0.04, "not worse than last", "fail"),
        (0.2, 0.1, 0.04, "not worse than last", "pass"),
    ],
)
def test_not_worse_passes_fails_or_cannot_be_told(
    delta: float, error: float, p: float, limit: str, word: str
) -> None:
    [verdict] = judged({"chrf": limit}, comparison(chrf=change(delta, error, p)))
    assert verdict.word == word
    assert verdict.passed is (word != "fail")
    mirrored = comparison(wer=change(-delta, error, p, higher=False))
    assert judged({"wer": limit}, mirrored)[0].word == word


def test_what_cannot_be_told_says_how_many_more_items_would_do_and_fails_if_asked() -> None:
    found = comparison(chrf=change(-0.4, 0.1, 0.0001))
    limit = "not worse than 'old' by 0.5"
    [verdict] = judged({"chrf": limit, "on_inconclusive": "fail"}, found)
    assert (verdict.word, verdict.passed) == ("inconclusive", False)
    assert "more would decide" in str(verdict)
    [verdict] = judged({"chrf": limit}, found)
    assert verdict.passed


def test_checks_that_ask_for_significance_are_corrected_for_each_other() -> None:
    found = comparison(
        chrf=change(-0.2, 0.1, 0.04),
        bleu=change(-0.2, 0.1, 0.9),
        wer=change(-0.2, 0.1, 0.9, higher=False),
    )
    alone = judged({"chrf": "not worse than last"}, found)
    assert [one.word for one in alone] == ["fail"]
    both = judged({"chrf": "not worse than last", "wer": "not worse than last"}, found)
    assert [one.word for one in both] == ["pass", "pass"]


def test_a_check_that_cannot_be_made_fails_with_the_reason() -> None:
    [verdict] = judged({"bleu": "not worse than last"}, comparison(chrf=change(0, 0.1, 1)))
    assert not verdict.passed
    assert "libraries.sacrebleu is 2.4 in one" in str(verdict)
    [verdict] = judged({"wer": "not worse than last"}, comparison(chrf=change(0, 0.1, 1)))
    assert not verdict.passed
    unpaired = msgspec.structs.replace(change(0, 0.1, 1), paired=0, delta=None)
    [verdict] = judged({"chrf": "not worse than last"}, comparison(chrf=unpaired))
    assert not verdict.passed
    assert "no item has it in both" in str(verdict)


def test_the_first_run_has_no_last_one_to_be_compared_with() -> None:
    first = Unmet("inconclusive", "there is no finished run before this one")
    [verdict] = judged({"chrf": "not worse than last"}, first)
    assert (verdict.word, verdict.passed) == ("inconclusive", True)
    [verdict] = judged({"chrf": "not worse than last", "on_inconclusive": "fail"}, first)
    assert not verdict.passed


@pytest.mark.parametrize(
    ("gate", "judges"),
    [
        ({}, []),
        ({"exact.mean": ">= 0"}, []),
        ({"good.mean": ">= 0"}, ["good"]),
        ({"good": "not worse than last"}, ["good"]),
        ({"all.mean": ">= 0"}, ["good", "fluent"]),
        ({"failures.share": "<= 1"}, []),
    ],
)
def test_judges_that_a_gate_relies_on_are_looked_at(
    gate: dict[str, str], judges: list[str]
) -> None:
    kinds = {
        "exact": "exact",
        "good": "llm_judge",
        "fluent": "llm_judge",
        "all": "composite",
    }
    checks = read_gate(gate, list(kinds), "exp.toml", kinds)
    assert [check.score for check in checks if isinstance(check, Calibrated)] == judges
    required = read_gate({**gate, "require_calibrated": 0.4}, list(kinds), "exp.toml", kinds)
    assert [check for check in required if isinstance(check, Calibrated)] == [
        Calibrated("good", required=True, least=0.4),
        Calibrated("fluent", required=True, least=0.4),
    ]
    asked = [check for check in checks if isinstance(check, Calibrated)]
    for verdict in judge(tuple(asked), REACHED):
        assert (verdict.word, verdict.passed) == ("warning", True)
