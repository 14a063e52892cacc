"""What a comparison says: of each run against the baseline, and of the rows side by side."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.annotations import calibration_told, is_calibrated
from dragoman.lab.comparison.verdicts import ALPHA, Standing, corrected, judge_not_worse
from dragoman.lab.model import Calibration, Turn
from dragoman.printable import printable
from dragoman.spelling import nearest

if TYPE_CHECKING:
    from dragoman.lab.comparison.plotting import Plot

MEASURES = ("latency_ms", "tokens", "cost")
"""What targets report beside their outputs; of all of them less is better."""

CORPUS = ".corpus"
"""After the name of a score: the score of all texts together, in place of the mean."""


class Finding(StrEnum):
    """What a difference amounts to."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    """Of a score of which neither end is the good one."""
    UNCLEAR = "unclear"
    """No difference that could be told from chance."""
    EQUAL = "equal"
    """Every turn has the same value in both."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How a figure differs between two runs, over the turns that have it in both."""

    baseline: float | None
    other: float | None
    delta: float | None
    """The other's value minus the baseline's."""
    ci95: tuple[float, float] | None
    """Bounds of the difference."""
    p: float | None
    """How often chance alone gives so large a difference, corrected (Holm) for everything that
    was compared at once."""
    p_alone: float | None
    """The same, as if this were the only question asked."""
    effect_size: float | None
    """The mean difference in standard deviations of the differences (Cohen's d of pairs)."""
    wins: int
    """Turns at which the other run is better; higher, of a score without a better end."""
    losses: int
    ties: int
    detectable: float | None
    """The smallest true difference that so many turns show in 80 of 100 experiments."""
    standard_error: float | None
    """Of the difference."""
    paired: int
    """How many turns have the figure in both runs. Repetitions of a turn are averaged."""
    units: int
    """How many of them are independent: turns, items of several turns, or clusters."""
    finding: Finding


class Missing(msgspec.Struct, frozen=True):
    """Turns that both runs have and that one of them has no value for, by what became of them."""

    target_failed: int = 0
    unscored: int = 0
    infrastructure: int = 0
    unfinished: int = 0

    @property
    def total(self) -> int:
        return self.target_failed + self.unscored + self.infrastructure + self.unfinished


class LeftOut(msgspec.Struct, frozen=True):
    """The turns that could not be paired."""

    only_in_baseline: int = 0
    only_in_other: int = 0
    baseline: Missing = Missing()
    other: Missing = Missing()


class WorstTurn(msgspec.Struct, frozen=True):
    """The turn that lost the most."""

    item_id: str
    turn: int
    baseline: float
    other: float

    def told(self, name: str) -> str:
        """The turn in a few words; `name` is the score's."""
        where = f"item {self.item_id}" + (f", turn {self.turn}" if self.turn else "")
        return f"{where}: {name} was {self.baseline:.4g}, is {self.other:.4g}"


class Compared(Change, frozen=True, kw_only=True):
    """One score, or one thing that targets report, in two runs."""

    higher_is_better: bool | None
    left_out: LeftOut
    in_words: str
    """What so many turns can tell, in a sentence."""
    worst: WorstTurn | None = None
    """Where the other run lost the most; None where it lost nowhere."""
    corpus: Change | None = None
    """The same of the score of all texts together, of evaluators that have one."""


class RunLabel(msgspec.Struct, frozen=True):
    """A run, or an experiment as it stands, that is compared."""

    experiment_id: str
    name: str
    status: str
    run_id: str | None
    """The run that was asked for; None: the experiment as it stands."""


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run against the baseline."""

    experiment_id: str
    name: str
    status: str
    run_id: str | None
    scores: dict[str, Compared]
    latency_ms: Compared | None = None
    tokens: Compared | None = None
    cost: Compared | None = None
    failures: Compared | None = None
    """The share of turns at which the target failed."""
    refused: dict[str, list[str]] = {}
    """Scores that do not compare, each with what differs between the evaluators."""
    only_here: tuple[str, ...] = ()
    """Scores that the baseline does not have."""
    only_in_baseline: tuple[str, ...] = ()
    calibrations: dict[str, Calibration | None] = {}
    """Of the scores that a judge gave: how far it agreed with people; None: not measured."""

    def figures(self) -> dict[str, Compared]:
        """Everything that was compared, by its name; a score goes before a measure so called."""
        measured = {name: getattr(self, name) for name in (*MEASURES, "failures")}
        known = {name: found for name, found in measured.items() if found is not None}
        return {**self.scores, **{name: known[name] for name in known if name not in self.scores}}

    def told_figures(self) -> dict[str, Compared]:
        """The same without failures that never happened, which people need not read."""
        return {
            name: found
            for name, found in self.figures().items()
            if found is not self.failures or found.baseline or found.other
        }

    def figure(self, name: str) -> tuple[Change, bool | None]:
        """One figure by name, `NAME.corpus` for that of the corpus; and which end is better."""
        compared = self.figures()
        plain = name.removesuffix(".mean")
        if (found := compared.get(name) or compared.get(plain)) is not None:
            return found, found.higher_is_better
        of_corpus = compared.get(name.removesuffix(CORPUS))
        if name.endswith(CORPUS) and of_corpus is not None:
            if of_corpus.corpus is None:
                raise InvalidMessage(f"{name.removesuffix(CORPUS)} has no corpus score.")
            return of_corpus.corpus, of_corpus.higher_is_better
        raise self._not_compared(name.removesuffix(CORPUS) if name not in self.refused else name)

    def worst(self, name: str) -> str | None:
        """The turn that lost the most in a figure, in a few words; None where it lost nowhere."""
        figures = self.figures()
        plain = name if name in figures else name.removesuffix(CORPUS).removesuffix(".mean")
        found = figures.get(plain)
        return None if found is None or found.worst is None else found.worst.told(plain)

    def _not_compared(self, name: str) -> InvalidMessage:
        if name in self.refused:
            return InvalidMessage(
                f"{name} was not compared, because it was not scored alike: "
                f"{'; '.join(self.refused[name])}. `dragoman experiment score` scores stored "
                "outputs again."
            )
        for names, where in ((self.only_here, self.name), (self.only_in_baseline, "the baseline")):
            if name in names:
                return InvalidMessage(f"{name} was not compared, because only {where} has it.")
        known = list(self.figures())
        meant = nearest(name, known)
        hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(known) or 'none'}."
        return InvalidMessage(f"No {name!r} was compared; {hint}")


class ComparedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A turn in one run."""

    output: Turn
    scores: dict[str, float | None]
    """The mean of its repetitions."""
    latency_ms: float | None = None
    tokens: float | None = None
    cost: float | None = None
    error_code: str | None = None
    gain: float | None = None
    """By how much it is better than the baseline's in the score that rows are sorted by."""
    diff: tuple[tuple[Literal["same", "removed", "added"], str], ...] | None = None
    """From the baseline's text to this one; None where there is not a text in both, or one is too
    long to compare."""


class ComparedRow(msgspec.Struct, frozen=True):
    """A turn in every run, side by side."""

    item_id: str
    turn: int
    input: Turn
    baseline: ComparedAnswer
    others: tuple[ComparedAnswer | None, ...]
    """In the order of the runs; None where a run does not have the item."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Runs against a baseline, on the items that they share."""

    baseline: RunLabel
    others: tuple[ComparedRun, ...]
    questions: int
    """How many differences were tested at once: p-values are corrected for so many."""
    cluster: str | None = None
    sorted_by: str | None = None
    rows: tuple[ComparedRow, ...] = ()
    """The biggest losses first; turns that one run has no score for come last."""
    next: str | None = None
    """The cursor of the rows after these; None when there are no more."""

    def judge(
        self,
        metric: str,
        *,
        margin: float | None = None,
        alpha: float = ALPHA,
        higher_is_better: bool | None = None,
    ) -> list[Standing]:
        """Whether each run is not worse than the baseline in one figure.

        With a margin: by more than that. Several runs are several questions, so their p-values
        are corrected for each other. `higher_is_better` is for scores that do not say it.
        """
        figures = [run.figure(metric) for run in self.others]
        return [
            judge_not_worse(
                metric,
                run.name,
                self.baseline.name,
                change,
                p,
                higher_is_better=better if higher_is_better is None else higher_is_better,
                margin=margin,
                alpha=alpha,
            )
            for run, (change, better), p in zip(
                self.others,
                figures,
                corrected([change.p_alone for change, _ in figures]),
                strict=True,
            )
        ]

    def assert_not_worse(
        self,
        metric: str,
        *,
        margin: float | None = None,
        alpha: float = ALPHA,
        on_inconclusive: Literal["pass", "fail"] = "pass",
        higher_is_better: bool | None = None,
        require_calibrated: bool | float = False,
    ) -> None:
        """Raise AssertionError when a run is worse than the baseline.

        Without a margin: significantly worse. With one: worse by more than the margin. Where the
        items are too few to tell, it warns and says how many would do, or raises too if asked.
        A score of a judge that was not measured against people warns as well, or raises with
        `require_calibrated`, which may be the agreement that the judge must have reached.
        """
        __tracebackhide__ = True
        for told in self._uncalibrated(metric, require_calibrated):
            if require_calibrated:
                raise AssertionError(told)
            warnings.warn(told, stacklevel=2)
        judged = self.judge(metric, margin=margin, alpha=alpha, higher_is_better=higher_is_better)
        failed = [one for one in judged if one.fails(on_inconclusive)]
        if failed:
            raise AssertionError("\n".join([*map(str, failed), *self._look_first(metric, failed)]))
        for one in judged:
            if one.is_inconclusive:
                warnings.warn(str(one), stacklevel=2)

    def _uncalibrated(self, metric: str, required: bool | float) -> list[str]:
        """What is wrong with the judges that gave this score, a sentence each."""
        score = metric.removesuffix(CORPUS).removesuffix(".mean")
        least = None if isinstance(required, bool) else float(required)
        return [
            f"{score} of {run.name} is given by a judge: {calibration_told(found)}."
            for run in self.others
            if score in run.calibrations
            and not is_calibrated(found := run.calibrations[score], least)
        ]

    def _look_first(self, metric: str, failed: list[Standing]) -> list[str]:
        """The rows with the biggest losses of the runs that failed."""
        names = {one.run for one in failed}
        worst = [run.worst(metric) for run in self.others if run.name in names]
        return [f"Look first at {told}." for told in dict.fromkeys(worst) if told is not None]

    def to_pandas(self) -> Any:
        """What was compared as a pandas DataFrame, a line for each run and figure."""
        return table_of(self, "pandas")

    def to_polars(self) -> Any:
        """The same as a polars DataFrame, where polars is installed."""
        return table_of(self, "polars")

    def plot(self) -> Plot:
        """The differences with their intervals, as a picture that notebooks show."""
        from dragoman.lab.comparison.plotting import forest_plot

        return forest_plot(self)

    def to_markdown(self, plot: str | None = None) -> str:
        """A report that fits a pull request; `plot` is the file of the picture beside it."""
        from dragoman.lab.comparison.markdown import markdown_of

        return markdown_of(self, plot)

    def _repr_html_(self) -> str:
        from dragoman.lab.comparison.pages import html_of

        return html_of(self)

    def __str__(self) -> str:
        from dragoman.lab.comparison.summary_lines import lines_of

        return printable("\n".join(lines_of(self)))


def told_row(row: ComparedRow, metric: str | None) -> str:
    """A row in a few words: where it is, and what it lost."""
    where = f"item {row.item_id}" + (f", turn {row.turn}" if row.turn else "")
    if metric is None:
        return where
    known = [one for one in row.others if one is not None and one.gain is not None]
    worst = min(known, key=lambda one: one.gain or 0.0, default=None)
    if worst is None:
        return where
    if metric == "failures":
        return f"{where}: {worst.error_code or 'no failure'}"
    before, after = _value(row.baseline, metric), _value(worst, metric)
    return f"{where}: {metric} was {before}, is {after}"


def _value(answer: ComparedAnswer, metric: str) -> str:
    found = getattr(answer, metric) if metric in MEASURES else answer.scores.get(metric)
    return "absent" if found is None else f"{found:.4g}"


def table_of(comparison: Comparison, library: str) -> Any:
    """The figures as a table of one of two libraries."""
    from dragoman.lab.comparison.tables import data_frame

    return data_frame(list(_lines(comparison)), library)


def _lines(comparison: Comparison) -> Iterator[Mapping[str, Any]]:
    told = ("baseline", "other", "delta", "p", "p_alone", "effect_size")
    counted = ("wins", "losses", "ties", "detectable", "paired", "units")
    for run in comparison.others:
        for name, found in run.told_figures().items():
            for figure, change in ((name, found), (f"{name}{CORPUS}", found.corpus)):
                if change is None:
                    continue
                low, high = change.ci95 or (None, None)
                yield {
                    "run": run.name,
                    "figure": figure,
                    **{one: getattr(change, one) for one in told},
                    "ci95_low": low,
                    "ci95_high": high,
                    **{one: getattr(change, one) for one in counted},
                    "finding": change.finding.value,
                }
