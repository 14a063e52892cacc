"""Scores of live traffic: a sample of a tenant's jobs as items of an append experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from dragoman.errors import (
    DragomanError,
    ExperimentNotRunning,
    InvalidMessage,
    NameTaken,
    SchemaMismatch,
    SettingsError,
)
from dragoman.ids import TenantId
from dragoman.lab.evaluators import EVALUATORS, check_evaluators
from dragoman.lab.experiments import Experiments, StartAsk
from dragoman.lab.feed import ItemsArchived, WatcherFeed
from dragoman.lab.model import (
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    ItemId,
    ItemKey,
    ScoreCell,
    TargetSpec,
    Turn,
)
from dragoman.lab.plugins import Context
from dragoman.lab.results import Results
from dragoman.lab.states import ACTIVE, ItemStatus, RunMode
from dragoman.observability import Metrics
from dragoman.task_set import TaskSet

NAME = "live sample"
OUTPUT = "translation"
COLUMNS = ("source", OUTPUT, "src_lang", "tgt_lang", "pair", "job_id", "latency_ms")
"""What a sampled job has; evaluators may use these columns and no others."""

NOT_IN_THE_LAB = (
    "The lab does not have it: it is on its way there, or it was left out because too many jobs "
    "waited, or it was removed by its age, or an earlier experiment has it."
)
"""What the lab says of a job that it cannot tell more of."""

_ID_BYTES = 10
_WITHOUT_REFERENCE = frozenset({"length_ratio"})
"""Kinds whose `reference` may be what was said: they compare no meaning."""


class LiveItem(msgspec.Struct, frozen=True):
    """An ended job as an item."""

    job_id: str
    turn: dict[str, Any]


class SampledJob(msgspec.Struct, frozen=True):
    """What became of a sampled job."""

    experiment_id: str
    item_id: str
    status: ItemStatus
    scores: dict[str, ScoreCell] = {}


def item_of(job_id: str) -> ItemId:
    """The item of a job: the same whichever process brings it, and however often."""
    return ItemId(f"i-{blake2b(job_id.encode(), digest_size=_ID_BYTES).hexdigest()}")


def sample_evaluators(given: Sequence[Mapping[str, Any]]) -> tuple[EvaluatorSpec, ...]:
    """The evaluators of `lab.live_sample.evaluators`; refused with what is wrong with which."""
    specs = []
    for number, one in enumerate(given):
        where = f"lab.live_sample.evaluators[{number}]"
        settings = dict(one)
        kind, name = settings.pop("kind", None), settings.pop("name", None)
        if not isinstance(kind, str) or not isinstance(name, str | None):
            raise SettingsError(f'{where} needs a kind, as in {{ kind = "regex" }}.')
        spec = EvaluatorSpec(kind, name or kind, float(settings.pop("weight", 1.0)), settings)
        if _needs_reference(spec):
            raise SettingsError(
                f"{where} ({kind}) compares the output with a reference, which live traffic does "
                f"not have; choose evaluators that look at the output alone."
            )
        try:
            check_evaluators((spec,), COLUMNS, Context(()))
        except SchemaMismatch as error:
            raise SettingsError(
                f"{where} ({kind}): {error.message} Live traffic has {', '.join(COLUMNS)}."
            ) from None
        except DragomanError as error:
            raise SettingsError(f"{where} ({kind}): {error.message}") from None
        specs.append(spec)
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SettingsError(f"Two of lab.live_sample.evaluators are called {twice!r}; rename one.")
    return tuple(specs)


def _needs_reference(spec: EvaluatorSpec) -> bool:
    try:
        fields = msgspec.structs.fields(EVALUATORS.find(spec.kind).settings)
    except InvalidMessage as error:
        raise SettingsError(f"lab.live_sample.evaluators: {error.message}") from None
    required = any(field.name == "reference" and field.required for field in fields)
    return required and spec.kind not in _WITHOUT_REFERENCE


class LiveSample:
    """Takes sampled jobs into the experiment of their tenant, and counts their scores."""

    def __init__(
        self,
        experiments: Experiments,
        results: Results,
        feed: WatcherFeed,
        metrics: Metrics,
        evaluators: Sequence[EvaluatorSpec],
    ) -> None:
        self._experiments = experiments
        self._results = results
        self._feed = feed
        self._metrics = metrics
        self._evaluators = tuple(evaluators)
        self._watched: set[ExperimentId] = set()
        self._watching = TaskSet()

    async def take(self, tenant: TenantId, items: Sequence[LiveItem]) -> None:
        """Add jobs to the tenant's experiment, which is made if there is none.

        An experiment that was stopped or finished by a user takes no more; a job that is there
        already is left as it is.
        """
        found = await self._experiment(tenant)
        self._watch(found.experiment_id)
        turns: list[Sequence[Turn]] = [(item.turn,) for item in items]
        ids = [item_of(item.job_id) for item in items]
        await self._experiments.invoke(tenant, found.experiment_id, turns, ids)

    async def find(self, tenant: TenantId, job_id: str) -> SampledJob | str:
        """What became of a sampled job, or why it has no score."""
        latest = await self._latest(tenant)
        if latest is None:
            return NOT_IN_THE_LAB
        key = ItemKey(item_of(job_id))
        rows = await self._results.of_items(latest.experiment_id, [key])
        if rows:
            row = rows[0]
            return SampledJob(latest.experiment_id, key.item_id, row.status, row.scores)
        if latest.status not in ACTIVE:
            return (
                f"The experiment {latest.spec.name!r} is {latest.status}, so it takes no more "
                "jobs; start it in mode append."
            )
        return NOT_IN_THE_LAB

    async def close(self) -> None:
        """Stop counting."""
        await self._watching.stop()

    # --- inside ---------------------------------------------------------------------------------

    async def _experiment(self, tenant: TenantId) -> Experiment:
        while True:
            latest = await self._latest(tenant)
            if latest is not None and latest.spec.evaluators == self._spec(NAME).evaluators:
                return latest
            number = 1
            if latest is not None:
                # The settings have other evaluators now: their scores are another experiment.
                if latest.status in ACTIVE:
                    await self._finish(tenant, latest)
                number = _number(latest.spec.name) + 1
            name = NAME if number == 1 else f"{NAME} #{number}"
            try:
                made, _ = await self._experiments.submit(
                    tenant, self._spec(name), StartAsk(RunMode.APPEND)
                )
            except NameTaken:
                continue  # another process made it at the same moment
            return made

    async def _finish(self, tenant: TenantId, latest: Experiment) -> None:
        try:
            await self._experiments.finish(tenant, latest.experiment_id)
        except ExperimentNotRunning:
            return  # it is ending already

    async def _latest(self, tenant: TenantId) -> Experiment | None:
        latest, name, number = None, NAME, 1
        while (found := await self._experiments.find(tenant, name)) is not None:
            latest, number = found, number + 1
            name = f"{NAME} #{number}"
        return latest

    def _spec(self, name: str) -> ExperimentSpec:
        return self._experiments.resolved(
            ExperimentSpec(
                name=name,
                dataset_version_id=None,
                target=TargetSpec("recorded", {"output": OUTPUT}),
                evaluators=self._evaluators,
                description="A sample of live traffic, as lab.live_sample says.",
            )
        )

    def _watch(self, experiment_id: ExperimentId) -> None:
        if experiment_id not in self._watched:
            self._watched.add(experiment_id)
            self._watching.spawn(self._count(experiment_id))

    async def _count(self, experiment_id: ExperimentId) -> None:
        """Count scores as they come, so that quality is watched as latency is."""
        with self._feed.watch(experiment_id) as watcher:
            async for change in watcher:
                if isinstance(change, ItemsArchived):
                    for row in await self._results.of_items(experiment_id, change.keys):
                        for name, cell in row.scores.items():
                            if cell.score is not None:
                                self._metrics.lab_live_sample_score.labels(name).observe(cell.score)


def _number(name: str) -> int:
    return int(name.removeprefix(f"{NAME} #")) if name != NAME else 1
