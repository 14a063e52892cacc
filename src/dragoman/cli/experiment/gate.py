"""Gates: what an experiment must reach.

A check is a limit on a figure, such as ``"exact.mean" = ">= 0.9"``, or a comparison with another
run, such as ``"chrf" = "not worse than last by 0.5"``. Pure: what a run has reached is given.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dragoman.errors import InvalidMessage, SettingsError
from dragoman.lab.annotations import JUDGE_KIND, calibration_told, is_calibrated
from dragoman.lab.comparison import Comparison, corrected, judge_not_worse
from dragoman.lab.evaluators import EVALUATORS
from dragoman.lab.results import PERCENTILES, Aggregates
from dragoman.spelling import nearest

MAX_FAILED = "max_failed"
ON_INCONCLUSIVE = "on_inconclusive"
REQUIRE_CALIBRATED = "require_calibrated"
OPTIONS = (MAX_FAILED, ON_INCONCLUSIVE, REQUIRE_CALIBRATED)
"""Keys of a gate that are no checks themselves."""

QUANTITIES = (
    *("count", "errors", "mean", "stddev", "min", "max", "total", *PERCENTILES),
    *("ci95.low", "ci95.high"),
    *(f"{name}_ci95.{end}" for name in PERCENTILES for end in ("low", "high")),
)
"""The figures of a score, or of what targets report, that a gate may limit."""
OF_SCORES = (
    *("pass_rate", "pass_rate_ci95.low", "pass_rate_ci95.high"),
    *("corpus", "corpus_ci95.low", "corpus_ci95.high"),
    *(f"outcomes.{name}" for name in ("scored", "target_failed", "unscored", "infrastructure")),
    *("repetitions.within", "repetitions.between"),
)
_OF_K = re.compile(r"repetitions\.pass_(?:at|hat)_k\.[1-9]\d*")
MEASURES = ("latency_ms", "tokens", "cost")
FAILURES = "failures"
_OF_FAILURES = ("items", "share")
_COMPARED = ("", "mean", "corpus")
"""What of a score may be compared with another run; nothing means its mean."""

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
}
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_LIMIT = re.compile(rf"\s*(>=|<=|==|!=|>|<|=)\s*(-?{_NUMBER})\s*")
_NOT_WORSE = re.compile(
    rf"""\s*not\s+worse\s+than\s+(?:(last)|'(.+)'|"(.+)")(?:\s+by\s+({_NUMBER}))?\s*"""
)

OnInconclusive = Literal["pass", "fail"]


class Bar(msgspec.Struct, frozen=True):
    """One limit on a figure: of a score, of what targets report, or of failures."""

    score: str
    """The name of a score, or `latency_ms`, `tokens`, `cost`, `failures`."""
    quantity: str
    op: str
    limit: float

    def __str__(self) -> str:
        return f"{self.score}.{self.quantity} {self.op} {self.limit:g}"

    def found_in(self, reached: Aggregates) -> float | None:
        """The figure; None where the run does not have it."""
        found: Any = reached.scores.get(self.score)
        if found is None and self.score in (*MEASURES, FAILURES):
            found = getattr(reached, self.score)
        for part in self.quantity.split("."):
            found = _part(found, part)
        return found if isinstance(found, int | float) else None

    def holds(self, found: float) -> bool:
        return _OPERATORS[self.op](found, self.limit)


class MaxFailed(msgspec.Struct, frozen=True):
    """The share of items that may lack a score: a mean over few items says too little."""

    limit: float = 0.0

    def __str__(self) -> str:
        return f"{MAX_FAILED} <= {self.limit:g}"

    def found_in(self, reached: Aggregates) -> float | None:
        return reached.failures.share

    def holds(self, found: float) -> bool:
        return found <= self.limit


class NotWorse(msgspec.Struct, frozen=True):
    """A figure that must not be worse than in another run."""

    score: str
    figure: str
    """The score, or `SCORE.corpus`."""
    baseline: str | None
    """The name or id of an experiment, or the id of a run; None: the last finished run."""
    margin: float | None = None
    on_inconclusive: OnInconclusive = "pass"

    def __str__(self) -> str:
        baseline = "last" if self.baseline is None else f"'{self.baseline}'"
        by = "" if self.margin is None else f" by {self.margin:g}"
        return f"{self.figure} not worse than {baseline}{by}"


class Calibrated(msgspec.Struct, frozen=True):
    """A judge that the gate relies on, which should have been measured against people."""

    score: str
    required: bool = False
    least: float | None = None
    """The agreement that it must have reached, from 0 to 1."""

    def __str__(self) -> str:
        reached = "" if self.least is None else f" with an agreement >= {self.least:g}"
        return f"judge {self.score} calibrated{reached}"


Check = Bar | MaxFailed | NotWorse | Calibrated

Gate = tuple[Check, ...]
"""What must hold; empty when the file has no gate."""


class GateVerdict(msgspec.Struct, frozen=True):
    """Whether a check held, and why."""

    check: Check
    word: Literal["pass", "fail", "inconclusive", "warning"]
    told: str
    passed: bool
    """Whether the gate passes with it: what is inconclusive fails only where the gate says so."""

    def __str__(self) -> str:
        return f"{self.check}: {self.told}"


class Unmet(msgspec.Struct, frozen=True):
    """Why there is no comparison with a baseline."""

    word: Literal["fail", "inconclusive"]
    told: str


def baselines_of(gate: Gate) -> list[str | None]:
    """The runs that the gate compares with, each once; None is the last finished one."""
    return list(dict.fromkeys(one.baseline for one in gate if isinstance(one, NotWorse)))


# --- reading a gate -------------------------------------------------------------------------------


def read_gate(
    written: Mapping[str, Any] | None,
    scores: Collection[str],
    where: str,
    kinds: Mapping[str, str] | None = None,
) -> Gate:
    """The gate of a file whose evaluators give these scores; errors name the faulty line.

    Every gate limits the share of items without a score, even if the file does not. `kinds` are
    those of the evaluators, by the names of their scores.
    """
    if written is None:
        return ()
    lines = _flat(written)
    max_failed = _max_failed(lines.pop(MAX_FAILED, 0.0), where)
    on_inconclusive = _on_inconclusive(lines.pop(ON_INCONCLUSIVE, "pass"), where)
    required = lines.pop(REQUIRE_CALIBRATED, None)
    reader = _Reader(scores, where, kinds or {}, on_inconclusive)
    checks = [reader.check(key, text) for key, text in lines.items()]
    return (*checks, *_judges(checks, kinds or {}, required, where), max_failed)


def _judges(
    checks: Sequence[Check], kinds: Mapping[str, str], required: Any, where: str
) -> list[Calibrated]:
    """The judges that the checks rely on; of a gate that requires it, every judge of the file."""
    judges = [name for name, kind in kinds.items() if kind == JUDGE_KIND]
    if required is None or required is False:
        named = {check.score for check in checks if isinstance(check, Bar | NotWorse)}
        # Which scores a composite combines is not in the gate: it may be any of them.
        combined = any(kinds.get(name) == "composite" for name in named)
        return [Calibrated(name) for name in judges if combined or name in named]
    is_number = isinstance(required, int | float) and not isinstance(required, bool)
    if required is not True and not (is_number and 0 < required <= 1):
        raise SettingsError(
            f"{where}: the gate {REQUIRE_CALIBRATED} = {required!r} cannot be read; write true, or "
            "the agreement that judges must have reached, above 0 and up to 1."
        )
    if not judges:
        raise SettingsError(
            f"{where}: the gate {REQUIRE_CALIBRATED} has no judge to hold to it; the file has no "
            f"evaluator of kind {JUDGE_KIND}."
        )
    least = float(required) if is_number else None
    return [Calibrated(name, required=True, least=least) for name in judges]


def _flat(written: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The gate's lines. TOML reads an unquoted `exact.mean` as a table in a table."""
    flat: dict[str, Any] = {}
    for key, value in written.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat


def _max_failed(share: Any, where: str) -> MaxFailed:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise SettingsError(
            f"{where}: the gate {MAX_FAILED} = {share!r} cannot be read; give the share of items "
            "that may lack a score, from 0 to 1."
        )
    return MaxFailed(float(share))


def _on_inconclusive(value: Any, where: str) -> OnInconclusive:
    if value == "pass":
        return "pass"
    if value == "fail":
        return "fail"
    raise SettingsError(
        f'{where}: the gate {ON_INCONCLUSIVE} = {value!r} cannot be read; write "pass" or "fail".'
    )


class _Reader:
    """Reads the checks of one file."""

    def __init__(
        self,
        scores: Collection[str],
        where: str,
        kinds: Mapping[str, str],
        on_inconclusive: OnInconclusive,
    ) -> None:
        self._scores = scores
        self._where = where
        self._kinds = kinds
        self._on_inconclusive = on_inconclusive

    def check(self, key: str, text: Any) -> Check:
        subject, quantity = self._subject(key)
        if isinstance(text, str) and (compared := _NOT_WORSE.fullmatch(text)) is not None:
            return self._not_worse(key, subject, quantity, compared)
        limit = _LIMIT.fullmatch(text) if isinstance(text, str) else None
        if limit is None or not math.isfinite(float(limit[2])):
            raise SettingsError(
                f'{self._where}: the gate {key!r} = {text!r} cannot be read; write it like ">= 0.9"'
                " or \"not worse than 'NAME' by 0.5\", where NAME is an experiment; last without "
                "quotation marks is the last finished run."
            )
        known = self._quantities(subject)
        if quantity not in known and not (subject in self._scores and _OF_K.fullmatch(quantity)):
            raise self._unknown_quantity(key, quantity, known)
        self._check_corpus(subject, quantity)
        return Bar(subject, quantity, limit[1], float(limit[2]))

    def _not_worse(self, key: str, subject: str, quantity: str, written: re.Match[str]) -> NotWorse:
        if quantity not in _COMPARED or (quantity == "corpus" and subject not in self._scores):
            raise SettingsError(
                f"{self._where}: the gate {key!r} cannot be compared with another run; write "
                f"{subject!r} alone for its mean"
                + (f", or '{subject}.corpus'." if subject in self._scores else ".")
            )
        self._check_corpus(subject, quantity)
        kind = EVALUATORS.get(self._kinds.get(subject, ""))
        if kind is not None and kind.higher_is_better is None:
            raise SettingsError(
                f"{self._where}: the gate {key!r} cannot be better or worse, because neither end "
                "of that score is the better one; limit it instead."
            )
        last, single, double, margin = written.groups()
        if margin is not None and not math.isfinite(float(margin)):
            raise SettingsError(
                f"{self._where}: the gate {key!r} has the margin {margin}, which no difference "
                "reaches; write how much worse the run may be."
            )
        if margin is not None and float(margin) == 0:
            raise SettingsError(
                f"{self._where}: the gate {key!r} has the margin 0; leave `by` out to fail only "
                "when it is significantly worse."
            )
        return NotWorse(
            score=subject,
            figure=f"{subject}.corpus" if quantity == "corpus" else subject,
            baseline=None if last else single or double,
            margin=None if margin is None else float(margin),
            on_inconclusive=self._on_inconclusive,
        )

    def _subject(self, key: str) -> tuple[str, str]:
        """What the key is about, and which figure of it."""
        known = [*self._scores, *MEASURES, FAILURES]
        # The longest first: the name of a score may have dots in it.
        for subject in sorted(known, key=len, reverse=True):
            if subject and (key == subject or key.startswith(f"{subject}.")):
                return subject, key[len(subject) + 1 :]
        subject = key.partition(".")[0]
        for quantity in (*QUANTITIES, *OF_SCORES):
            if key.endswith(f".{quantity}"):
                subject = key.removesuffix(f".{quantity}")
        if "." not in key and (meant := nearest(key, OPTIONS)) is not None:
            raise SettingsError(f"{self._where}: there is no gate {key!r}; did you mean {meant}?")
        meant = nearest(subject, known)
        hint = (
            f"did you mean {meant!r}?"
            if meant
            else f"the file has {', '.join(self._scores) or 'none'}."
        )
        raise SettingsError(
            f"{self._where}: the gate on {subject!r} matches no evaluator of the file; {hint}"
        )

    def _quantities(self, subject: str) -> tuple[str, ...]:
        if subject in self._scores:
            return (*QUANTITIES, *OF_SCORES)
        return _OF_FAILURES if subject == FAILURES else QUANTITIES

    def _check_corpus(self, subject: str, quantity: str) -> None:
        kind = EVALUATORS.get(self._kinds.get(subject, ""))
        of_corpus = quantity.partition(".")[0] in ("corpus", "corpus_ci95")
        if of_corpus and kind is not None and not kind.has_corpus:
            raise SettingsError(
                f"{self._where}: the gate '{subject}.{quantity}' can never hold, because "
                f"evaluators of kind {self._kinds[subject]} have no corpus score."
            )

    def _unknown_quantity(self, key: str, quantity: str, known: Sequence[str]) -> SettingsError:
        meant = nearest(quantity, known)
        hint = f" Did you mean {meant}?" if meant else ""
        return SettingsError(
            f"{self._where}: there is no gate {key!r}; write NAME.QUANTITY with one of "
            f"{', '.join(known)}.{hint}"
        )


# --- judging --------------------------------------------------------------------------------------


def judge(
    gate: Gate,
    reached: Aggregates,
    comparisons: Mapping[str | None, Comparison | Unmet] | None = None,
) -> list[GateVerdict]:
    """A verdict for each check; a limit on a missing score never holds.

    `comparisons` are those with the gate's baselines. The checks without a margin ask for
    significance; they are questions asked at once, so their p-values are corrected for each other.
    """
    found = comparisons or {}
    changes = [_change(check, found) for check in gate]
    plain = [
        place
        for place, check in enumerate(gate)
        if isinstance(check, NotWorse) and check.margin is None and changes[place] is not None
    ]
    p_values: dict[int, float | None] = {}
    if plain:
        alone = [change[0].p_alone for place in plain if (change := changes[place]) is not None]
        p_values = dict(zip(plain, corrected(alone), strict=True))
    verdicts = []
    for place, check in enumerate(gate):
        if isinstance(check, NotWorse):
            verdicts.append(_compared(check, found[check.baseline], p_values.get(place)))
        elif isinstance(check, Calibrated):
            verdicts.append(_measured(check, reached))
        else:
            verdicts.append(_limited(check, reached))
    return verdicts


def _measured(check: Calibrated, reached: Aggregates) -> GateVerdict:
    """Whether a judge was measured; what is not required is a warning."""
    score = reached.scores.get(check.score)
    found = None if score is None or score.calibration is msgspec.UNSET else score.calibration
    told = calibration_told(found)
    if is_calibrated(found, check.least):
        return GateVerdict(check, "pass", told, passed=True)
    if check.required:
        return GateVerdict(check, "fail", told, passed=False)
    return GateVerdict(check, "warning", told, passed=True)


def _limited(check: Bar | MaxFailed, reached: Aggregates) -> GateVerdict:
    found = check.found_in(reached)
    passed = found is not None and check.holds(found)
    told = _missing(check, reached) if found is None else f"it is {found:g}"
    return GateVerdict(check, "pass" if passed else "fail", told, passed)


def _missing(check: Bar | MaxFailed, reached: Aggregates) -> str:
    if not isinstance(check, Bar):
        return "the run does not have this figure"
    found = reached.scores.get(check.score) or getattr(reached, check.score, None)
    count = getattr(found, "count", 0)
    if not count:
        reports = f"the target reports no {check.score}"
        return reports if check.score in MEASURES else "no item has this score"
    if "ci95" in check.quantity:
        values = "1 value does" if count == 1 else f"{count:,} values do"
        return f"{values} not bound this figure; more items would"
    return "the run does not have this figure"


def _change(check: Check, comparisons: Mapping[str | None, Comparison | Unmet]) -> Any:
    """The figure that a check compares, and which end of it is better; None where there is none."""
    if not isinstance(check, NotWorse):
        return None
    found = comparisons[check.baseline]
    if isinstance(found, Unmet):
        return None
    try:
        return found.others[0].figure(check.figure)
    except InvalidMessage:
        return None


def _compared(check: NotWorse, found: Comparison | Unmet, p: float | None) -> GateVerdict:
    if isinstance(found, Unmet):
        return _verdict(check, found.word, found.told)
    [run] = found.others
    try:
        change, better = run.figure(check.figure)
        judged = judge_not_worse(
            check.figure,
            run.name,
            found.baseline.name,
            change,
            change.p_alone if p is None else p,
            higher_is_better=better,
            margin=check.margin,
        )
    except InvalidMessage as error:
        # A check that cannot be made must not pass for one that was.
        return _verdict(check, "fail", error.message)
    return _verdict(check, judged.verdict, judged.told)


def _verdict(
    check: NotWorse, word: Literal["pass", "fail", "inconclusive"], told: str
) -> GateVerdict:
    failed = word == "fail" or (word == "inconclusive" and check.on_inconclusive == "fail")
    return GateVerdict(check, word, told, not failed)


def _part(found: Any, part: str) -> Any:
    """One step into a figure: a field, a bound of an interval, or a chance by its k."""
    if isinstance(found, tuple):
        return found[("low", "high").index(part)] if part in ("low", "high") else None
    if isinstance(found, dict):
        return found.get(int(part))
    return getattr(found, part, None)
