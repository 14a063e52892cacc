"""How an experiment ended, for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.api import ExperimentView
from dragoman.cli.experiment.gate import Verdict
from dragoman.lab.model import ResultRow
from dragoman.lab.report import lines_of
from dragoman.lab.results import Aggregates

_CELL_CHARACTERS = 60


def print_summary(console: Console, found: ExperimentView, reached: Aggregates) -> None:
    """What became of the items, and each score."""
    stats = found.stats
    console.print(
        Text(
            f"{found.name} ({found.experiment_id}): {found.status}, {stats.success} succeeded, "
            f"{stats.fail} failed" + (f", {stats.terminated} stopped" if stats.terminated else "")
        )
    )
    if found.reason:
        console.print(Text(found.reason))
    table = Table("score", "count", "errors", "mean", "stddev", "p50", "pass rate", box=None)
    for name, score in reached.scores.items():
        rate = score.pass_rate if isinstance(score.pass_rate, float) else None
        table.add_row(
            *(Text(name), str(score.count), str(score.errors)),
            *(_number(value) for value in (score.mean, score.stddev, score.p50, rate)),
        )
    if reached.scores:
        console.print(table)
    for line in lines_of(reached, stats, _duration_seconds(found)):
        console.print(Text(line))


def print_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    """What of the gate held, and what did not."""
    for verdict in verdicts:
        word = "passed" if verdict.passed else "FAILED"
        console.print(Text(f"gate {word}: {verdict}", style="green" if verdict.passed else "red"))


def print_experiments(console: Console, experiments: Sequence[ExperimentView]) -> None:
    """One line an experiment."""
    table = Table("experiment_id", "name", "status", "items", "failed", "made", box=None)
    for one in experiments:
        stats = one.stats
        items = stats.queueing + stats.processing + stats.success + stats.fail + stats.terminated
        table.add_row(
            *(one.experiment_id, Text(one.name), one.status),
            *(str(items), str(stats.fail), one.created_at),
        )
    console.print(table)


def print_rows(console: Console, rows: Sequence[ResultRow]) -> None:
    """One line a row, with what went in, what came out and the scores."""
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    table = Table("item_id", "turn", "status", "input", "output", *names, "error", box=None)
    for row in rows:
        scores = [row.scores.get(name) for name in names]
        table.add_row(
            *(row.item_id, str(row.turn), row.status, _cell(row.input), _cell(row.output)),
            *("" if cell is None else _number(cell.score) for cell in scores),
            Text(row.error_code or ""),
        )
    console.print(table)


def _duration_seconds(found: ExperimentView) -> float | None:
    """How long the latest run has taken; None before it has begun."""
    if found.started_at is None:
        return None
    end = datetime.now(UTC) if found.ended_at is None else datetime.fromisoformat(found.ended_at)
    return max(0.0, (end - datetime.fromisoformat(found.started_at)).total_seconds())


def _cell(values: object) -> Text:
    text = ", ".join(f"{name}={value}" for name, value in dict(values).items())  # type: ignore[call-overload]
    return Text(text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
