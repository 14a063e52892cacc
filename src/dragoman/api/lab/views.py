"""Datasets, experiments and runs as the API shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from dragoman.lab.experiments import Overview, RunOverview
from dragoman.lab.library import DatasetDifference, Imported
from dragoman.lab.model import (
    Budget,
    Dataset,
    DatasetVersion,
    EvaluatorSpec,
    Item,
    ScoreSummary,
    Stats,
    TargetSpec,
    Turn,
    shown_settings,
)
from dragoman.lab.repository import annotating, tries
from dragoman.lab.results import HourOfScores


class ImportedView(msgspec.Struct, frozen=True):
    """What a file became."""

    dataset_id: str
    version_id: str
    version: int
    items: int
    created: bool
    """False when the dataset had a version of the same rows and schema before: this one."""


class VersionView(msgspec.Struct, frozen=True):
    """A version of a dataset."""

    version_id: str
    dataset_id: str
    version: int
    items: int
    max_turns: int
    schema: dict[str, Any]
    created_at: str


class DatasetView(msgspec.Struct, frozen=True):
    """A dataset, with its latest version."""

    dataset_id: str
    name: str
    created_at: str
    latest: VersionView


class ItemView(msgspec.Struct, frozen=True):
    """An item of a dataset version."""

    item_id: str
    turns: tuple[Turn, ...]


class DifferenceView(msgspec.Struct, frozen=True):
    """What changed between two versions; all items are counted, some are shown."""

    from_version: int
    to_version: int
    unchanged: int
    added: int
    removed: int
    added_items: list[ItemView]
    removed_items: list[ItemView]


class ExperimentView(msgspec.Struct, frozen=True):
    """An experiment with its progress."""

    experiment_id: str
    name: str
    description: str
    dataset_version_id: str | None
    target: dict[str, Any]
    evaluators: list[dict[str, Any]]
    mapping: dict[str, str]
    concurrency: int | None
    evaluator_concurrency: int | None
    retries: int
    item_timeout_seconds: float | None
    time_limit_seconds: float | None
    budget: Budget
    cron: str | None
    cron_timezone: str
    repetitions: int
    cache: bool
    weight: float
    status: str
    reason: str | None
    run_id: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    next_run_at: str | None
    stats: Stats
    items: int
    progress: float
    eta_seconds: float | None
    dataset_id: str | None
    """The dataset whose version it uses; null where it uses none, or it was deleted."""
    scores: dict[str, ScoreSummary]
    """As they were when the latest run ended; empty before. Aggregates have them at any time."""


class AnnotationView(msgspec.Struct, frozen=True):
    """What a person said of a row."""

    annotation_id: str
    item_id: str
    repetition: int
    turn: int
    name: str
    annotator: str
    score: float | None
    label: str | None
    correction: str | None
    at: str
    outdated: bool
    """Whether the row has another output now than the one that the person judged."""


class TryView(msgspec.Struct, frozen=True):
    """One try of a turn: what it took, and what went wrong."""

    run_id: str
    mode: str
    """The mode of the run that made it."""
    turn: int
    number: int
    """The try's number in its run, from 1."""
    status: str
    error_code: str | None
    error_message: str | None
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    cached: bool
    """Whether the output is the answer to the same question of an earlier call."""
    at: str
    """When its outcome was stored."""


class RunView(msgspec.Struct, frozen=True):
    """A run with its progress."""

    run_id: str
    experiment_id: str
    mode: str
    status: str
    reason: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    stats: Stats
    scores: dict[str, ScoreSummary]
    """The experiment's scores as they were when the run ended; empty before."""


class CreatedView(msgspec.Struct, frozen=True):
    """A new experiment."""

    experiment_id: str


class SubmittedView(msgspec.Struct, frozen=True):
    """A new experiment and its first run."""

    experiment_id: str
    run_id: str


class StartedView(msgspec.Struct, frozen=True):
    """The run that an experiment has now."""

    run_id: str
    joined: bool
    """Whether it was running already, and items were added to it."""


class InvokedView(msgspec.Struct, frozen=True):
    """Items that an append experiment has taken."""

    item_ids: list[str]


class KilledView(msgspec.Struct, frozen=True):
    """A run that is ending."""

    run_id: str


class HourView(msgspec.Struct, frozen=True):
    """The scores that were given within an hour."""

    began_at: str
    scores: dict[str, ScoreSummary]


def view_version(version: DatasetVersion) -> VersionView:
    return VersionView(
        version_id=version.version_id,
        dataset_id=version.dataset_id,
        version=version.version,
        items=version.items,
        max_turns=version.max_turns,
        schema=version.schema,
        created_at=rfc3339(version.created_at_ms),
    )


def view_imported(imported: Imported) -> ImportedView:
    version = imported.version
    return ImportedView(
        version.dataset_id, version.version_id, version.version, version.items, imported.is_new
    )


def view_dataset(dataset: Dataset) -> DatasetView:
    return DatasetView(
        dataset_id=dataset.dataset_id,
        name=dataset.name,
        created_at=rfc3339(dataset.created_at_ms),
        latest=view_version(dataset.latest),
    )


def view_item(item: Item) -> ItemView:
    return ItemView(item.shown_id, item.turns)


def view_difference(
    before: DatasetVersion, after: DatasetVersion, found: DatasetDifference
) -> DifferenceView:
    return DifferenceView(
        from_version=before.version,
        to_version=after.version,
        unchanged=found.unchanged,
        added=found.added,
        removed=found.removed,
        added_items=[view_item(item) for item in found.added_items],
        removed_items=[view_item(item) for item in found.removed_items],
    )


def view_experiment(overview: Overview) -> ExperimentView:
    experiment, spec = overview.experiment, overview.experiment.spec
    return ExperimentView(
        experiment_id=experiment.experiment_id,
        name=spec.name,
        description=spec.description,
        dataset_version_id=spec.dataset_version_id,
        target=_target(spec.target),
        evaluators=[_evaluator(evaluator) for evaluator in spec.evaluators],
        mapping=spec.mapping,
        concurrency=spec.concurrency,
        evaluator_concurrency=spec.evaluator_concurrency,
        retries=spec.retries,
        item_timeout_seconds=spec.item_timeout_seconds,
        time_limit_seconds=spec.time_limit_seconds,
        budget=spec.budget,
        cron=spec.cron,
        cron_timezone=spec.cron_timezone,
        repetitions=spec.repetitions,
        cache=spec.cache,
        weight=spec.weight,
        status=experiment.status,
        reason=experiment.reason,
        run_id=experiment.run_id,
        created_at=rfc3339(experiment.created_at_ms),
        started_at=_moment(experiment.started_at_ms),
        ended_at=_moment(experiment.ended_at_ms),
        next_run_at=_moment(experiment.next_run_at_ms),
        stats=overview.stats,
        items=overview.items,
        progress=overview.progress,
        eta_seconds=overview.eta_seconds,
        dataset_id=overview.dataset_id,
        scores=overview.scores,
    )


def view_run(overview: RunOverview) -> RunView:
    run = overview.run
    return RunView(
        run_id=run.run_id,
        experiment_id=run.experiment_id,
        mode=run.mode,
        status=run.status,
        reason=run.reason,
        created_at=rfc3339(run.created_at_ms),
        started_at=_moment(run.started_at_ms),
        ended_at=_moment(run.ended_at_ms),
        stats=overview.stats,
        scores=overview.scores,
    )


def rfc3339(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)


def _target(spec: TargetSpec) -> dict[str, Any]:
    return {"kind": spec.kind, **shown_settings(spec.settings)}


def _evaluator(spec: EvaluatorSpec) -> dict[str, Any]:
    return {
        "kind": spec.kind,
        "name": spec.name,
        "weight": spec.weight,
        **shown_settings(spec.settings),
    }


def view_annotation(one: annotating.StoredAnnotation) -> AnnotationView:
    told = msgspec.structs.asdict(one)
    return AnnotationView(at=rfc3339(told.pop("at_ms")), **told)


def view_hour(one: HourOfScores) -> HourView:
    return HourView(rfc3339(one.began_at_ms), one.scores)


def view_try(one: tries.Try) -> TryView:
    told = msgspec.structs.asdict(one)
    return TryView(at=rfc3339(told.pop("logged_at_ms")), **told)
