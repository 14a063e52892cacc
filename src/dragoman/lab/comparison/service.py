"""Comparing runs that are in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import msgspec

from dragoman.errors import InvalidFilter, InvalidMessage, NotFound
from dragoman.extras import require_extra
from dragoman.ids import TenantId
from dragoman.lab.annotations import calibrations_of
from dragoman.lab.comparison.compared import (
    MEASURES,
    Compared,
    ComparedRun,
    Comparison,
)
from dragoman.lab.comparison.finding import Contestant, find_contestant, find_last
from dragoman.lab.comparison.run_reader import FAILURES, MAX_TURNS, Seen, fingerprints_in, read_run
from dragoman.lab.comparison.side_by_side import rows_of, said_of, worst_first
from dragoman.lab.evaluators import (
    EVALUATORS,
    Fingerprint,
    corpus_function,
    differences,
    higher_is_better,
)
from dragoman.lab.filters import EVERYTHING, LABEL, SCORE, Filter, fields_of
from dragoman.lab.mirror import check_patterns
from dragoman.lab.model import Calibration, EvaluatorSpec
from dragoman.spelling import nearest
from dragoman.store import Store, StoreConnection

MAX_OTHERS = 20
MAX_ROWS = 1_000
AT_ONCE = 2
"""How many comparisons are made at a time; each may hold much and compute for seconds."""


class CompareAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared."""

    others: tuple[str, ...]
    """Experiments by name or id, or runs by id."""
    baseline: str | None = None
    """None: the last finished run of the same experiment, before the first of the others."""
    wanted: Filter = EVERYTHING
    """Which turns, by the baseline's rows."""
    cluster: str | None = None
    """A column of the input whose values name what belongs together: a speaker, a document."""
    sort_by: str | None = None
    """The score, or measure, whose biggest losses come first; None: the first that both have."""
    rows: int = 20
    skip: int = 0


class Comparisons:
    """Compares the runs of a tenant."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._places = asyncio.Semaphore(AT_ONCE)

    async def compare(self, tenant: TenantId, ask: CompareAsk) -> Comparison:
        """Compare runs with a baseline on the items that they share."""
        _check(ask)
        await asyncio.to_thread(check_patterns, ask.wanted)
        async with self._places:
            return await self._compare(tenant, ask)

    async def _compare(self, tenant: TenantId, ask: CompareAsk) -> Comparison:
        contestants = await self._store.read(lambda c: _find(c, tenant, ask))
        # After the search: the first run of its name needs nothing to be compared with nothing.
        require_extra("lab", "Comparing experiments", ["numpy", "scipy"])
        from dragoman.lab.comparison import measuring  # here: it needs the extra `lab`

        seen = await _read(self._store, contestants, ask)
        prints = await self._store.read(lambda c: _prints(c, seen))
        # Not on the event loop: corpus scores are computed thousands of times.
        found = await asyncio.to_thread(_compare, seen, prints, ask, measuring)
        found = await self._with_calibrations(tenant, seen, found)
        chosen, more = await asyncio.to_thread(worst_first, seen, found, ask.skip, ask.rows)
        said = await self._store.read(lambda c: said_of(c, seen, chosen))
        rows = await asyncio.to_thread(rows_of, seen, said, found, chosen)
        next_ = str(ask.skip + len(chosen)) if more else None
        return msgspec.structs.replace(found, rows=rows, next=next_)

    async def _with_calibrations(
        self, tenant: TenantId, seen: Sequence[Seen], found: Comparison
    ) -> Comparison:
        """The comparison with how far the judges of each run agree with people."""

        def read(connection: StoreConnection) -> list[dict[str, Calibration | None]]:
            return [
                calibrations_of(
                    connection,
                    tenant,
                    one.contestant.run_id or one.contestant.experiment.run_id,
                    one.contestant.evaluators,
                )
                for one in seen[1:]
            ]

        known = await self._store.read(read)
        others = tuple(
            msgspec.structs.replace(run, calibrations=judges)
            for run, judges in zip(found.others, known, strict=True)
        )
        return msgspec.structs.replace(found, others=others)


def _check(ask: CompareAsk) -> None:
    if not 1 <= len(ask.others) <= MAX_OTHERS:
        raise InvalidMessage(
            f"`others` names {len(ask.others)} runs; name from 1 to {MAX_OTHERS}.",
            details={"field": "others"},
        )
    if not 0 <= ask.rows <= MAX_ROWS:
        raise InvalidMessage(f"limit is {ask.rows}; it must be from 0 to {MAX_ROWS}.")


# --- reading --------------------------------------------------------------------------------------

Prints = dict[str, dict[str, Fingerprint] | None]
"""The fingerprints of each run that gave scores."""


def _find(connection: StoreConnection, tenant: TenantId, ask: CompareAsk) -> list[Contestant]:
    """The baseline, and the others."""
    others = [find_contestant(connection, tenant, named) for named in ask.others]
    if ask.baseline is not None:
        baseline = find_contestant(connection, tenant, ask.baseline)
    elif (last := find_last(connection, tenant, others[0])) is not None:
        baseline = last
    else:
        raise NotFound(
            f"{others[0].experiment.spec.name!r} has no finished run before this one to compare "
            "with; name a baseline."
        )
    named = [(one.experiment.experiment_id, one.run_id) for one in (baseline, *others)]
    if named[0] in named[1:]:
        raise InvalidMessage(
            f"{baseline.experiment.spec.name!r} is compared with itself; name two runs."
        )
    if len(set(named)) < len(named):
        # A second line about it would count as one more comparison in every corrected p-value.
        twice = next(
            one for place, one in enumerate(others) if named[place + 1] in named[: place + 1]
        )
        raise InvalidMessage(
            f"{twice.experiment.spec.name!r} is named twice; name each run once.",
            details={"field": "others"},
        )
    _check_scores(baseline, ask.wanted)
    return [baseline, *others]


async def _read(store: Store, contestants: Sequence[Contestant], ask: CompareAsk) -> list[Seen]:
    """Every run; with a filter, only the turns that pass it in the baseline."""
    baseline, *others = contestants
    corpora = {spec.name for one in contestants for spec in one.evaluators if _has_corpus(spec)}
    first = await read_run(
        store,
        baseline,
        with_statistics=corpora,
        most=MAX_TURNS,
        wanted=ask.wanted,
        cluster=ask.cluster,
    )
    seen, left = [first.seen], MAX_TURNS - first.turns
    only = None if ask.wanted == EVERYTHING else first.seen.item_ids.keys()
    for one in others:
        read = await read_run(store, one, with_statistics=corpora, most=left, only=only)
        left -= read.turns
        seen.append(read.seen)
    if ask.cluster is not None and all(one is None for one in first.seen.clusters.values()):
        raise InvalidMessage(
            f"No item of {baseline.experiment.spec.name!r} has a column {ask.cluster!r} to name "
            "clusters by.",
            details={"field": "cluster"},
        )
    return seen


def _prints(connection: StoreConnection, seen: Sequence[Seen]) -> Prints:
    runs = {run_id for one in seen for of_score in one.scored_in.values() for run_id in of_score}
    return {run_id: fingerprints_in(connection, run_id) for run_id in sorted(runs)}


def _has_corpus(spec: EvaluatorSpec) -> bool:
    kind = EVALUATORS.get(spec.kind)
    return kind is not None and kind.has_corpus


def _check_scores(baseline: Contestant, wanted: Filter) -> None:
    known = [one.name for one in baseline.evaluators]
    names = {
        condition.field.removeprefix(prefix)
        for condition in fields_of(wanted)
        for prefix in (SCORE, LABEL)
        if condition.field.startswith(prefix)
    }
    for name in sorted(names.difference(known)):
        meant = nearest(name, known)
        hint = f"did you mean {meant!r}?" if meant else f"it has {', '.join(known) or 'none'}."
        raise InvalidFilter(
            f"No evaluator of {baseline.experiment.spec.name!r} gives a score {name!r}; {hint}",
            details={"field": f"{SCORE}{name}"},
        )


# --- comparing ------------------------------------------------------------------------------------


def _compare(
    seen: Sequence[Seen], prints: Prints, ask: CompareAsk, measuring: ModuleType
) -> Comparison:
    baseline, *others = seen
    refused = [_refused(baseline, other, prints) for other in others]
    asked = [
        (number, question)
        for number, other in enumerate(others)
        for question in _questions(baseline, other, refused[number], measuring)
    ]
    # One place corrects the p-values of all of them: they are asked at once.
    answers = measuring.with_corrected(
        [measuring.answer(question, ask.cluster) for _, question in asked]
    )
    answered = list(zip(asked, answers, strict=True))
    runs = [
        _compared_run(
            baseline,
            other,
            refused[number],
            [(question, found) for (of, question), found in answered if of == number],
        )
        for number, other in enumerate(others)
    ]
    return Comparison(
        baseline=baseline.contestant.label,
        others=tuple(runs),
        questions=measuring.questions_in(answers),
        cluster=ask.cluster,
        sorted_by=_sorted_by(runs, ask.sort_by),
    )


def _compared_run(
    baseline: Seen,
    other: Seen,
    refused: dict[str, list[str]],
    answered: Sequence[tuple[Any, Compared]],
) -> ComparedRun:
    names = {one.name for one in other.contestant.evaluators}
    known = {one.name for one in baseline.contestant.evaluators}
    measured = {question.name: found for question, found in answered if not question.is_score}
    return ComparedRun(
        **msgspec.structs.asdict(other.contestant.label),
        scores={question.name: found for question, found in answered if question.is_score},
        latency_ms=measured.get("latency_ms"),
        tokens=measured.get("tokens"),
        cost=measured.get("cost"),
        failures=measured.get(FAILURES),
        refused=refused,
        only_here=tuple(sorted(names - known)),
        only_in_baseline=tuple(sorted(known - names)),
    )


def _questions(
    baseline: Seen, other: Seen, refused: dict[str, list[str]], measuring: ModuleType
) -> list[Any]:
    """Everything that both runs have."""
    questions = []
    for spec in baseline.contestant.evaluators:
        if spec.name in refused or spec.name not in other.scores:
            continue
        questions.append(
            measuring.Question(
                name=spec.name,
                baseline=baseline,
                other=other,
                values=(baseline.scores[spec.name], other.scores[spec.name]),
                higher_is_better=higher_is_better(spec),
                corpus=corpus_function(spec) if _has_corpus(spec) else None,
            )
        )
    for name in (*MEASURES, FAILURES):
        values = (baseline.measures[name], other.measures[name])
        if all(one.counts for one in values):
            questions.append(
                measuring.Question(
                    name=name,
                    baseline=baseline,
                    other=other,
                    values=values,
                    higher_is_better=False,
                    is_score=False,
                )
            )
    return questions


def _refused(baseline: Seen, other: Seen, prints: Prints) -> dict[str, list[str]]:
    """Scores that both have and that were not given alike, with what differs."""
    found: dict[str, list[str]] = {}
    for name in baseline.scores.keys() & other.scores.keys():
        # The baseline's first, so that what differs is always told in that order.
        ran = dict.fromkeys((*sorted(baseline.scored_in[name]), *sorted(other.scored_in[name])))
        known = [(run_id, (prints[run_id] or {}).get(name)) for run_id in ran]
        unknown = [run_id for run_id, print_ in known if print_ is None]
        if unknown:
            found[name] = [
                f"{unknown[0]} does not tell how it scored, because it is from before that was kept"
            ]
            continue
        for (_, one), (_, two) in pairwise(known):
            assert one is not None
            assert two is not None
            if told := differences(one, two):
                found[name] = told
    return dict(sorted(found.items()))


def _sorted_by(runs: Sequence[ComparedRun], asked: str | None) -> str | None:
    figures = [figure for run in runs for figure in run.figures().items()]
    known = list(dict.fromkeys(name for name, _ in figures))
    if asked is None:
        # A score without a better end has no losses.
        sided = [name for name, found in figures if found.higher_is_better is not None]
        return next(iter([*sided, *known]), None)
    if asked not in known:
        meant = nearest(asked, known)
        hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(known) or 'none'}."
        raise InvalidMessage(
            f"Rows cannot be sorted by {asked!r}, which was not compared; {hint}",
            details={"field": "sort_by"},
        )
    return asked
