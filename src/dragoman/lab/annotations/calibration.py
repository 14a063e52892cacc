"""Judges measured against people, before they decide.

A judge is known by its fingerprint: its model, its settings and the words it is asked in. What was
measured in one experiment holds for the same judge in every other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.clock import Clock
from dragoman.ids import TenantId
from dragoman.lab.annotations.agreement import JudgedRow, agreement_of
from dragoman.lab.evaluators import Fingerprint
from dragoman.lab.model import (
    AnnotatedName,
    Calibration,
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    RunId,
)
from dragoman.lab.repository import Numbers, annotating, experiments, result_rows, runs
from dragoman.store import Store, StoreConnection

JUDGE_KIND = "llm_judge"

LEAST_ROWS = 10
"""On fewer rows that people judged, agreement says next to nothing: the judge is not calibrated."""

MOST_AT_ONCE = 5_000
"""With more annotations than this, one more does not have all of them measured again at once: the
next reading of the aggregates does."""

_ITEMS_AT_ONCE = 500


def is_judge(evaluator: EvaluatorSpec) -> bool:
    """Whether the evaluator is a model whose judgement has to be measured."""
    return evaluator.kind == JUDGE_KIND


def is_calibrated(found: Calibration | None, least: float | None = None) -> bool:
    """Whether a judge was measured on enough rows, and agrees with people as far as is asked.

    `least` is compared with the kappa of labels, or else with Spearman's correlation of scores.
    """
    if found is None or found.rows < LEAST_ROWS or found.agreement is None:
        return False
    return least is None or found.agreement >= least


def judged_rows(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    numbers: Numbers,
    run_id: RunId | None = None,
) -> list[tuple[result_rows.WholeTurn, JudgedRow]]:
    """Every row, as it stands or as a run left it, whose output people judged."""
    found: list[tuple[result_rows.WholeTurn, JudgedRow]] = []
    after = ""
    while item_ids := annotating.annotated_items(
        connection, experiment_id, after=after, most=_ITEMS_AT_ONCE
    ):
        turns = result_rows.whole_turns(connection, experiment_id, item_ids, run_id, numbers)
        found += [
            (turn, JudgedRow(turn.row.annotations, turn.row.scores))
            for turn in turns
            if turn.row.annotations
        ]
        after = item_ids[-1]
    return found


class Calibrator:
    """Measures the judges of experiments against people, and keeps what came out."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def calibrate(self, tenant: TenantId, experiment_id: str) -> None:
        """Measure the judges of an experiment, after people said more of its rows."""

        def measure(
            connection: StoreConnection,
        ) -> tuple[Experiment, dict[str, AnnotatedName]] | None:
            found = experiments.find_experiment(connection, experiment_id, tenant=tenant)
            if found is None or not any(map(is_judge, found.spec.evaluators)):
                return None
            if annotating.count(connection, found.experiment_id) > MOST_AT_ONCE:
                return None
            numbers = found.spec.evaluator_numbers or None
            rows = [judged for _, judged in judged_rows(connection, found.experiment_id, numbers)]
            names = [one.name for one in found.spec.evaluators if is_judge(one)]
            return found, agreement_of(rows, names)

        measured = await self._store.read(measure)
        if measured is not None:
            await self.keep(tenant, *measured)

    async def keep(
        self, tenant: TenantId, experiment: Experiment, measured: Mapping[str, AnnotatedName]
    ) -> None:
        """Keep the agreement of an experiment's judges, unless it is known already."""
        at_ms = self._clock.now_ms()

        def compare(connection: StoreConnection) -> tuple[list[str], list[Calibration]] | None:
            judges = judges_of(connection, experiment.run_id, experiment.spec.evaluators)
            hashes = [one.hash for one in judges.values()]
            new = _calibrations(judges, measured, experiment.experiment_id, at_ms)
            known = annotating.calibrations(connection, tenant, hashes)
            kept = [
                one
                for found in known.values()
                for one in found
                if one.experiment_id == experiment.experiment_id
            ]
            return (hashes, new) if _figures(kept) != _figures(new) else None

        changed = await self._store.read(compare)
        if changed is not None:
            await self._store.write(lambda c: _store(c, tenant, experiment.experiment_id, *changed))


def _store(
    connection: StoreConnection,
    tenant: TenantId,
    experiment_id: ExperimentId,
    fingerprints: Sequence[str],
    found: Sequence[Calibration],
) -> None:
    # Locked, because two people may annotate at once, and each has all judges measured.
    locked = experiments.find_experiment(connection, experiment_id, tenant=tenant, lock=True)
    if locked is not None:
        annotating.store_calibrations(connection, tenant, experiment_id, fingerprints, found)


def calibrations_of(
    connection: StoreConnection,
    tenant: TenantId,
    run_id: RunId | None,
    evaluators: Sequence[EvaluatorSpec],
) -> dict[str, Calibration | None]:
    """Each judge of a run by its score, with how far it agreed with people; None: not measured.

    What people said under the name of the score counts, and only without that anything else.
    """
    judges = judges_of(connection, run_id, evaluators)
    known = annotating.calibrations(connection, tenant, [one.hash for one in judges.values()])
    found: dict[str, Calibration | None] = {one.name: None for one in evaluators if is_judge(one)}
    for score, judge in judges.items():
        measured = known.get(judge.hash, [])
        of_the_name = [one for one in measured if one.annotation == score]
        found[score] = next(iter(of_the_name or measured), None)
    return found


def judges_of(
    connection: StoreConnection, run_id: RunId | None, evaluators: Sequence[EvaluatorSpec]
) -> dict[str, Fingerprint]:
    """The judges among the evaluators, by their scores, as they were when the run started."""
    kept = None if run_id is None else runs.fingerprints_of(connection, run_id)
    if kept is None:
        return {}
    known = msgspec.json.decode(kept, type=dict[str, Fingerprint])
    return {one.name: known[one.name] for one in evaluators if is_judge(one) and one.name in known}


def _calibrations(
    judges: Mapping[str, Fingerprint],
    measured: Mapping[str, AnnotatedName],
    experiment_id: ExperimentId,
    at_ms: int,
) -> list[Calibration]:
    found: dict[tuple[str, str], Calibration] = {}
    for score, judge in judges.items():
        for name, of_name in measured.items():
            agreement = of_name.evaluators.get(score)
            # The same judge may stand twice in an experiment, under two names.
            if agreement is None or (name != score and (judge.hash, name) in found):
                continue
            found[judge.hash, name] = Calibration(
                annotation=name,
                **msgspec.structs.asdict(agreement),
                model=_model(judge),
                prompt=str(judge.parts.get("prompt", "")),
                fingerprint=judge.hash,
                experiment_id=experiment_id,
                measured_at_ms=at_ms,
            )
    return list(found.values())


def _model(judge: Fingerprint) -> str:
    settings = judge.parts.get("settings")
    return str(settings.get("model", "")) if isinstance(settings, dict) else ""


def _figures(found: Sequence[Calibration]) -> set[Calibration]:
    """What was found, whenever that was."""
    return {msgspec.structs.replace(one, measured_at_ms=0) for one in found}
