"""Holding a run that has ended to its gate: what it is compared with, and the rows to look at."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.api import ExperimentView
from dragoman.cli.experiment.gate import (
    FAILURES,
    MEASURES,
    Bar,
    Calibrated,
    Check,
    Gate,
    GateVerdict,
    NotWorse,
    Unmet,
    baselines_of,
    judge,
)
from dragoman.cli.lab.client import LabClient
from dragoman.errors import DragomanError, ExtraMissing, InvalidMessage, NotFound, SettingsError
from dragoman.lab.comparison import Comparison
from dragoman.lab.failures import shortened
from dragoman.lab.model import ResultRow
from dragoman.lab.results import Aggregates
from dragoman.lab.states import ItemStatus

_OUTPUT_CHARACTERS = 200
_FAILED = {"field": "status", "op": "=", "value": ItemStatus.FAIL.value}
_RUN_ID = re.compile(r"r-[0-9a-f]{24}")
_COUNTS = ("count", "errors")


async def check_baselines(lab: LabClient, gate: Gate, own_name: str, where: str) -> None:
    """Refuse a gate that names an experiment or a run which is not there, before anything is run.

    The experiment's own name is allowed: its first run is then the baseline of later ones.
    """
    for baseline in baselines_of(gate):
        if baseline is None or baseline == own_name:
            continue
        try:
            if _RUN_ID.fullmatch(baseline):
                await _look_up_run(lab, baseline)
            else:
                await lab.experiment(baseline)
        except NotFound as error:
            raise SettingsError(
                f"{where}: the gate compares with {baseline!r}. {error.message}"
            ) from None


async def _look_up_run(lab: LabClient, run_id: str) -> None:
    """Raise NotFound where there is no such run.

    No route finds a run by its id alone. A comparison looks its runs up before it finds that they
    are one and the same.
    """
    try:
        await lab.compare([run_id], baseline=run_id, limit=0)
    except NotFound:
        raise
    except (InvalidMessage, ExtraMissing):
        pass  # it is there; or it cannot be compared, which the gate tells at the end


async def judge_run(
    lab: LabClient,
    gate: Gate,
    found: ExperimentView,
    reached: Aggregates,
    last: Comparison | None = None,
) -> list[tuple[GateVerdict, str | None]]:
    """A verdict for each check of the gate; with one that fails, the row to look at first.

    `last` is the comparison with the last finished run, where it was made already.
    """
    comparisons = {
        baseline: last
        if last is not None and baseline is None
        else await _comparison(lab, found, baseline)
        for baseline in baselines_of(gate)
    }
    verdicts = judge(gate, reached, comparisons)
    return [
        (verdict, None if verdict.passed else await _worst(lab, found, verdict.check, comparisons))
        for verdict in verdicts
    ]


async def _comparison(
    lab: LabClient, found: ExperimentView, baseline: str | None
) -> Comparison | Unmet:
    if baseline in (found.name, found.experiment_id):
        return Unmet("inconclusive", "this run is the baseline itself")
    try:
        return await lab.compare([found.experiment_id], baseline=baseline, limit=0)
    except ExtraMissing as error:
        return Unmet("fail", error.message)
    except NotFound as error:
        if baseline is None:
            return Unmet("inconclusive", "there is no finished run before this one")
        return Unmet("fail", error.message)
    except DragomanError as error:
        return Unmet("fail", error.message)


async def _worst(
    lab: LabClient,
    found: ExperimentView,
    check: Check,
    comparisons: Mapping[str | None, Comparison | Unmet],
) -> str | None:
    """The row that a failed check is worst at, in words; None where there is none."""
    if isinstance(check, Calibrated):
        return None  # no row is at fault: people have not looked at enough of them
    if isinstance(check, NotWorse):
        compared = comparisons[check.baseline]
        return None if isinstance(compared, Unmet) else compared.others[0].worst(check.figure)
    wanted, sort = _where_to_look(check)
    rows = await lab.results(found.experiment_id, wanted, sort=sort, most=1)
    if not rows and wanted is None:
        return None
    if not rows:
        rows = await lab.results(found.experiment_id, _NO_SUCCESS, most=1)
    return _told(rows[0], check) if rows else None


_NO_SUCCESS = {"field": "status", "op": "!=", "value": ItemStatus.SUCCESS.value}


def _where_to_look(check: Check) -> tuple[Any, Sequence[Mapping[str, str]]]:
    """The filter and the order that bring the worst row first."""
    if not isinstance(check, Bar) or check.score == FAILURES or _is_about_missing(check):
        return _FAILED, ()
    field = check.score if check.score in MEASURES else f"score.{check.score}"
    rises = "asc" if check.op.startswith(">") else "desc"
    return {"field": field, "op": "not_null"}, [{"field": field, "order": rises}]


def _is_about_missing(check: Bar) -> bool:
    return check.quantity in _COUNTS or check.quantity.startswith("outcomes.")


def _told(row: ResultRow, check: Check) -> str:
    where = f"item {row.item_id}" + (f", turn {row.turn}" if row.turn else "")
    if row.repetition > 1:
        where += f", repetition {row.repetition}"
    if isinstance(check, Bar) and (value := _value(row, check.score)) is not None:
        said = ", ".join(str(one) for one in row.output.values())
        shown = shortened(" ".join(said.split()), _OUTPUT_CHARACTERS)
        return f"{where}: {check.score} {value:g}, output {shown!r}"
    said = " ".join((row.error_message or "").split())
    return f"{where}: {row.error_code or row.status}, {shortened(said, _OUTPUT_CHARACTERS)}"


def _value(row: ResultRow, name: str) -> float | None:
    cell = row.scores.get(name)
    if cell is not None:
        return cell.score
    found: float | None = getattr(row, name) if name in MEASURES else None
    return found
