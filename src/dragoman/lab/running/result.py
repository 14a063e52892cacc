"""What `lab.run` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from importlib import import_module
from typing import Any, TypeVar

import msgspec

from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.annotations import Annotations, NewAnnotation, Put, this_user
from dragoman.lab.comparison import Plot, data_frame, histograms
from dragoman.lab.filters import parse_filter
from dragoman.lab.model import (
    AnnotatedName,
    Annotation,
    ExperimentId,
    JsonValue,
    ResultRow,
    RunId,
    Stats,
)
from dragoman.lab.report import corpus_of, interval_of, lines_of
from dragoman.lab.results import Aggregate, Aggregates, GroupedAggregates, Place, Results
from dragoman.lab.running.describing import Evaluator, Function
from dragoman.lab.states import RunStatus
from dragoman.printable import printable
from dragoman.randomness import Randomness
from dragoman.store import open_store

_ROWS_AT_ONCE = 1000

Found = TypeVar("Found")


class Summary(msgspec.Struct, frozen=True):
    """How an experiment ended. It prints as a few lines for people."""

    name: str
    status: RunStatus
    reason: str | None
    stats: Stats
    aggregates: Aggregates
    items: int = 0
    """The number of items, including those that the run did not reach."""
    duration_seconds: float | None = None

    @property
    def scores(self) -> Mapping[str, Aggregate]:
        """Each score by its name: count, errors, mean, pass_rate and so on."""
        return self.aggregates.scores

    def __str__(self) -> str:
        stats = self.stats
        first = f"{self.name}: {self.status}, {stats.success} succeeded, {stats.fail} failed"
        lines = [first, *([self.reason] if self.reason else [])]
        for name, score in self.scores.items():
            mean = "none" if score.mean is None else f"{score.mean:.4g}"
            line = f"  {name}: mean {mean}, {score.count} scored, {score.errors} errors"
            sure = interval_of(score)
            line += f", 95 % interval {sure}" if sure else ""
            corpus = corpus_of(score)
            lines.append(f"{line}, corpus {corpus}" if corpus else line)
        lines += lines_of(self.aggregates, stats, self.duration_seconds)
        return printable("\n".join(lines))


class RunResult:
    """An experiment that was run; its rows are read from the database when they are asked for."""

    def __init__(
        self,
        database_url: str,
        tenant: TenantId,
        experiment_id: ExperimentId,
        run_id: RunId,
        summary: Summary,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        self._functions = dict(functions or {})
        self._database_url = database_url
        self._tenant = tenant
        self.experiment_id = experiment_id
        self.run_id = run_id
        self.summary = summary

    @property
    def functions(self) -> Mapping[str, Function]:
        """The program's own functions that the experiment calls, by their names in it."""
        return self._functions

    @property
    def database_url(self) -> str:
        """Where the rows are."""
        return self._database_url

    def __repr__(self) -> str:
        return f"<RunResult {self.experiment_id}: {self.summary.status}>"

    def rows(
        self,
        filter: Mapping[str, JsonValue] | None = None,  # noqa: A002 - what it is called everywhere
        *,
        limit: int | None = None,
    ) -> list[ResultRow]:
        """The rows, one a turn, in the order of the dataset; of a filter, those that pass it."""
        return self._outside(self._read(filter, limit))

    def score(
        self,
        evaluators: Evaluator | Function | Sequence[Evaluator | Function],
        *,
        progress: bool | None = None,
    ) -> RunResult:
        """Score the stored outputs with these evaluators, without calling the target.

        They become evaluators of the experiment: one of the same name replaces the former one, and
        all other scores stay. Inside an event loop, too; Ctrl-C is as for `lab.run`.
        """
        # Imported here: what runs experiments makes results, too.
        scoring = import_module("dragoman.lab.running.embedded")
        scored: RunResult = scoring.score_stored(self, evaluators, progress)
        return scored

    def annotate(
        self,
        row: ResultRow | str,
        *,
        name: str,
        score: float | None = None,
        label: str | None = None,
        correction: str | None = None,
        turn: int = 0,
        repetition: int = 1,
        annotator: str | None = None,
    ) -> str:
        """Say what a person thinks of a row, and return the id of the annotation.

        `row` is one of `rows()`, or the id of an item, whose `turn` and `repetition` then count.
        Said again by the same annotator under the same name, it is changed. The annotator is the
        user of the program, if no other is named.
        """
        said = Annotation(name, annotator or this_user(), score, label, correction)
        if isinstance(row, ResultRow):
            given = NewAnnotation(row.item_id, said, row.turn, row.repetition)
        else:
            given = NewAnnotation(row, said, turn, repetition)
        return self._outside(self._annotate(given)).annotation_id

    def aggregates(
        self,
        filter: Mapping[str, JsonValue] | None = None,  # noqa: A002 - what it is called everywhere
        *,
        group_by: str | None = None,
        cluster: str | None = None,
    ) -> GroupedAggregates:
        """The aggregates as they stand now, with what people said since the run ended.

        Of a filter, over the rows that pass it. `group_by` is a column of the dataset: `groups` of
        the aggregates has the same for each of its values. `cluster` is one that says which items
        belong together, such as a speaker: intervals take them for one observation.
        """
        return self._outside(self._aggregates(filter, group_by, cluster))

    def agreement(self) -> dict[str, AnnotatedName]:
        """How far people agree with each other and evaluators with them, by what was judged."""
        found = self.aggregates().annotations
        return {} if isinstance(found, msgspec.UnsetType) else found

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame: `input.NAME`, `output.NAME` and `score.NAME` columns."""
        return data_frame([_flat(row) for row in self.rows()], "pandas")

    def to_polars(self) -> Any:
        """The same as a polars DataFrame, where polars is installed."""
        return data_frame([_flat(row) for row in self.rows()], "polars")

    def plot(self) -> Plot:
        """How the values of each score are spread, as a picture that notebooks show."""
        return histograms(
            self.summary.name,
            {
                name: [(bin_.low, bin_.high, bin_.count) for bin_ in score.histogram]
                for name, score in self.summary.scores.items()
            },
        )

    def _repr_html_(self) -> str:
        return html_of(self.summary)

    def _outside(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Do it in a thread: the caller may be inside an event loop, as in a notebook."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, work).result()

    async def _annotate(self, given: NewAnnotation) -> Put:
        async with await open_store(self._database_url) as store:
            annotations = Annotations(store, SystemClock(), Randomness().stream("annotations"))
            [put] = await annotations.put(self._tenant, self.experiment_id, [given])
            return put

    async def _aggregates(
        self, tree: Mapping[str, JsonValue] | None, group_by: str | None, cluster: str | None
    ) -> GroupedAggregates:
        async with await open_store(self._database_url) as store:
            return await Results(store).aggregates(
                self._tenant,
                self.experiment_id,
                wanted=parse_filter(tree),
                group_by=group_by,
                cluster=cluster,
            )

    async def _read(
        self, tree: Mapping[str, JsonValue] | None, limit: int | None
    ) -> list[ResultRow]:
        wanted = parse_filter(tree)
        rows: list[ResultRow] = []
        after: Place | None = None
        async with await open_store(self._database_url) as store:
            while limit is None or len(rows) < limit:
                most = _ROWS_AT_ONCE if limit is None else min(_ROWS_AT_ONCE, limit - len(rows))
                page, after = await Results(store).page(
                    self._tenant, self.experiment_id, wanted=wanted, after=after, most=most
                )
                rows += page
                if after is None:
                    break
        return rows


def html_of(summary: Summary) -> str:
    """A summary for notebooks: each score in a line, then the rest as text."""
    stats = summary.stats
    head = f"{summary.name}: {summary.status}, {stats.success} succeeded, {stats.fail} failed"
    columns = ("score", "scored", "errors", "mean", "95 % interval", "stddev", "p50", "corpus")
    cells = [
        (
            *(name, score.count, score.errors, score.mean, interval_of(score)),
            *(score.stddev, score.p50, corpus_of(score)),
        )
        for name, score in summary.scores.items()
    ]
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(_shown(cell))}</td>' for cell in line)}</tr>" for line in cells
    )
    names = "".join(f"<th>{name}</th>" for name in columns)
    rest = lines_of(summary.aggregates, stats, summary.duration_seconds)
    told = [*([summary.reason] if summary.reason else []), *rest]
    return (
        f"<h4>{escape(head)}</h4><table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>"
        f"<pre>{escape(chr(10).join(told))}</pre>"
    )


def _shown(cell: str | float | None) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else f"{cell:.4g}"


def _flat(row: ResultRow) -> dict[str, Any]:
    told = ("item_id", "repetition", "turn", "run_id", "status")
    measured = ("latency_ms", "first_token_ms", "tokens", "cost", "cached")
    return {
        **{name: getattr(row, name) for name in (*told, *measured)},
        **{f"input.{name}": value for name, value in row.input.items()},
        **{f"output.{name}": value for name, value in row.output.items()},
        **{f"score.{name}": cell.score for name, cell in row.scores.items()},
        **{
            f"annotation.{name}": said.text if said.score is None else said.score
            for name, said in row.annotated.items()
        },
        "error_code": row.error_code,
        "error_message": row.error_message,
    }
