"""What the experiment commands print for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import typer

from dragoman.api import AnnotationView, ExperimentView
from dragoman.cli.experiment.gate import GateVerdict
from dragoman.cli.showing import print_table, say
from dragoman.lab.model import ResultRow
from dragoman.lab.report import corpus_of, interval_of, lines_of
from dragoman.lab.results import Aggregate, Aggregates, GroupedAggregates
from dragoman.printable import printable

_CELL_CHARACTERS = 60
_COLUMNS = ("score", "count", "errors", "mean", "95 % interval", "stddev", "p50", "pass rate")


def print_summary(found: ExperimentView, reached: Aggregates) -> None:
    """Print how the items ended, each score, and the rest of the report."""
    stats = found.stats
    say(
        f"{found.name} ({found.experiment_id}): {found.status}, {stats.success} succeeded, "
        f"{stats.fail} failed" + (f", {stats.terminated} stopped" if stats.terminated else "")
    )
    if found.reason:
        say(found.reason)
    if reached.scores:
        # Only some evaluators score all texts together.
        has_corpus = any(map(corpus_of, reached.scores.values()))
        print_table(
            [*_COLUMNS, "corpus"] if has_corpus else _COLUMNS,
            (
                [*_cells(name, score), corpus_of(score)] if has_corpus else _cells(name, score)
                for name, score in reached.scores.items()
            ),
            empty="",
        )
    for line in lines_of(reached, stats, _duration_seconds(found)):
        say(line)


def print_groups(column: str, reached: GroupedAggregates) -> None:
    """Print the mean of each score, with its interval, for each value of a column."""
    groups = () if isinstance(reached.groups, msgspec.UnsetType) else reached.groups
    print_table(
        (column, "rows", *reached.scores),
        (
            (
                "(none)" if one.value is None else one.value,
                one.rows,
                *(_mean(score) for score in one.aggregates.scores.values()),
            )
            for one in groups
        ),
        empty="There are no rows.",
    )
    if reached.more_groups:
        say(f"and {reached.more_groups:,} more values of {column}")


def _mean(score: Aggregate) -> str:
    if score.mean is None:
        return "-"
    interval = interval_of(score)
    return f"{score.mean:.4g} ({interval})" if interval else f"{score.mean:.4g}"


def print_verdicts(verdicts: Sequence[tuple[GateVerdict, str | None]]) -> None:
    """Print which checks of the gate held and which did not, with the rows to look at."""
    for verdict, row in verdicts:
        word, colour = ("passed", "green") if verdict.passed else ("FAILED", "red")
        if verdict.word in ("inconclusive", "warning") and verdict.passed:
            word, colour = verdict.word, "yellow"
        typer.secho(printable(f"gate {word}: {verdict}"), fg=colour)
        if row is not None:
            say(f"  look first at {row}")


def print_experiments(experiments: Sequence[ExperimentView]) -> None:
    """Print one line for each experiment."""
    print_table(
        ("experiment_id", "name", "status", "items", "failed", "made"),
        (
            (
                one.experiment_id,
                one.name,
                one.status,
                _items(one),
                one.stats.fail,
                one.created_at,
            )
            for one in experiments
        ),
        empty="There are no experiments; `dragoman experiment run` makes one.",
    )


def print_rows(rows: Sequence[ResultRow]) -> None:
    """Print one line for each row, with its input, its output and its scores."""
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    is_repeated = any(row.repetition > 1 for row in rows)
    which = ("item_id", "repetition", "turn") if is_repeated else ("item_id", "turn")
    print_table(
        (*which, "status", "input", "output", *names, "error"),
        (
            (
                *(getattr(row, name) for name in which),
                *(row.status, _cell(row.input), _cell(row.output)),
                *(_score(row, name) for name in names),
                row.error_code or "",
            )
            for row in rows
        ),
        empty="There are no such rows.",
    )


def print_annotations(annotations: Sequence[AnnotationView]) -> None:
    """Print one line for each annotation."""
    print_table(
        ("item_id", "repetition", "turn", "name", "annotator", "score", "label", "correction", ""),
        (
            (
                *(one.item_id, one.repetition, one.turn, one.name, one.annotator),
                *(_number(one.score), one.label or "", _shortened(one.correction or "")),
                "of an earlier output" if one.outdated else "",
            )
            for one in annotations
        ),
        empty="No row is annotated; `dragoman experiment annotate` says what a person thinks.",
    )


def _items(found: ExperimentView) -> int:
    stats = found.stats
    return stats.queueing + stats.processing + stats.success + stats.fail + stats.terminated


def _cells(name: str, score: Aggregate) -> list[object]:
    rate = score.pass_rate if isinstance(score.pass_rate, float) else None
    spread = map(_number, (score.stddev, score.p50, rate))
    return [name, score.count, score.errors, _number(score.mean), interval_of(score), *spread]


def _score(row: ResultRow, name: str) -> str:
    cell = row.scores.get(name)
    return "" if cell is None else _number(cell.score)


def _duration_seconds(found: ExperimentView) -> float | None:
    """How long the latest run has taken; None before it started."""
    if found.started_at is None:
        return None
    end = datetime.now(UTC) if found.ended_at is None else datetime.fromisoformat(found.ended_at)
    return max(0.0, (end - datetime.fromisoformat(found.started_at)).total_seconds())


def _cell(values: object) -> str:
    text = ", ".join(f"{name}={value}" for name, value in dict(values).items())  # type: ignore[call-overload]
    return _shortened(text)


def _shortened(text: str) -> str:
    return text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
