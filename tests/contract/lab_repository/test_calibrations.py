"""What is known of judges: kept by fingerprint, whoever measures at the same moment."""

from __future__ import annotations

import asyncio

import msgspec
import sqlalchemy as sa
from tests.contract.lab_repository.bench import EXPERIMENT, TENANT, VERSION, Bench

from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.annotations import Calibrator, calibrations_of
from dragoman.lab.evaluators import Fingerprint
from dragoman.lab.model import (
    Agreement,
    AnnotatedName,
    Calibration,
    EvaluatorSpec,
    Experiment,
    ExperimentSpec,
    RunId,
    TargetSpec,
)
from dragoman.lab.repository import annotating, experiments
from dragoman.lab.states import RunMode, RunStatus

JUDGES = (EvaluatorSpec("llm_judge", "good"), EvaluatorSpec("llm_judge", "fluent"))
PRINTS = {
    one.name: Fingerprint(
        f"{number}" * 64, {"settings": {"model": f"m-{one.name}"}, "prompt": "p" * 64}
    )
    for number, one in enumerate(JUDGES)
}


def an_experiment(bench: Bench) -> Experiment:
    """An experiment of two judges, with a run that tells their fingerprints."""
    spec = ExperimentSpec("one", VERSION, TargetSpec("recorded"), JUDGES)
    made = Experiment(EXPERIMENT, TENANT, spec, RunStatus.PENDING, None, None, 0, None, None, None)
    bench.write(lambda c: experiments.insert_experiment(c, made))
    run = bench.new_run(RunMode.SUBMIT)
    kept = msgspec.json.encode(PRINTS).decode()
    told = sa.text("UPDATE run_log SET fingerprints_json = :kept").bindparams(kept=kept)
    bench.write(lambda c: c.execute(told).close())
    return msgspec.structs.replace(made, run_id=run.run_id)


def measured(rows: int, kappa: float, *names: str) -> dict[str, AnnotatedName]:
    found = Agreement(rows, kappa, kappa, None, None, None)
    each = {one.name: found for one in JUDGES}
    return {name: AnnotatedName(rows, rows, 1, None, each) for name in names}


def known(bench: Bench, run_id: RunId | None) -> dict[str, Calibration | None]:
    return bench.read(lambda c: calibrations_of(c, TENANT, run_id, JUDGES))


def test_those_who_measure_at_once_leave_one_figure_of_each_judge(bench: Bench) -> None:
    experiment = an_experiment(bench)
    calibrator = Calibrator(bench.store, SystemClock())

    async def both() -> None:
        await asyncio.gather(
            *(
                calibrator.keep(TENANT, experiment, measured(10 + n, 0.5, "good", "style"))
                for n in range(8)
            )
        )

    for _ in range(5):
        bench.run(both())
    rows = bench.rows("SELECT fingerprint, annotation FROM calibration ORDER BY 1, 2")
    hashes = sorted(one.hash for one in PRINTS.values())
    assert rows == [(one, name) for one in hashes for name in ("good", "style")]


def test_a_judge_is_known_by_what_was_said_under_its_name_and_by_the_most_rows(
    bench: Bench,
) -> None:
    experiment = an_experiment(bench)
    calibrator = Calibrator(bench.store, SystemClock())
    assert known(bench, experiment.run_id) == {"good": None, "fluent": None}
    assert known(bench, None) == {"good": None, "fluent": None}
    bench.run(calibrator.keep(TENANT, experiment, measured(30, 0.1, "style")))
    found = known(bench, experiment.run_id)
    assert found["good"] is not None
    assert (found["good"].annotation, found["good"].model) == ("style", "m-good")
    both = {**measured(30, 0.1, "style"), **measured(12, 0.7, "good")}
    bench.run(calibrator.keep(TENANT, experiment, both))
    found = known(bench, experiment.run_id)
    assert found["good"] is not None
    assert (found["good"].annotation, found["good"].kappa) == ("good", 0.7), "its own name counts"
    assert found["fluent"] is not None
    assert found["fluent"].annotation == "style", "of other names, the one with the most rows"
    other = bench.read(lambda c: calibrations_of(c, TenantId("other"), experiment.run_id, JUDGES))
    assert other == {"good": None, "fluent": None}, "another tenant's people are not believed"
    bench.run(calibrator.keep(TENANT, experiment, {}))
    assert known(bench, experiment.run_id) == {"good": None, "fluent": None}, "all was taken back"


def test_the_same_figures_are_not_written_again(bench: Bench) -> None:
    experiment = an_experiment(bench)
    calibrator = Calibrator(bench.store, SystemClock())
    bench.run(calibrator.keep(TENANT, experiment, measured(10, 0.5, "good")))
    first = bench.rows("SELECT measured_at_ms FROM calibration")
    bench.run(calibrator.keep(TENANT, experiment, measured(10, 0.5, "good")))
    assert bench.rows("SELECT measured_at_ms FROM calibration") == first
    hashes = [one.hash for one in PRINTS.values()]
    assert len(bench.read(lambda c: annotating.calibrations(c, TENANT, hashes))) == 2
