"""Estimates of experiments that are not made yet."""

from __future__ import annotations

import msgspec

from dragoman.clock import Clock
from dragoman.errors import InvalidMessage
from dragoman.ids import TenantId
from dragoman.lab.audio import audio_columns
from dragoman.lab.bench_opening import BenchMaker
from dragoman.lab.estimates.figures import TARGET, part_of
from dragoman.lab.estimates.rehearsing import Rehearsal, rehearse
from dragoman.lab.estimates.sampling import SAMPLE_ITEMS, Sample, positions
from dragoman.lab.experiments import Experiments, unpriced_target_and_scores
from dragoman.lab.model import (
    DatasetId,
    DatasetVersion,
    ExperimentSpec,
    Item,
    ItemId,
    VersionId,
    content_id,
)
from dragoman.lab.repository import datasets
from dragoman.store import Store, StoreConnection

_NOT_STORED = VersionId("v-not-stored")


class Estimates:
    """Tries a few items of an experiment, and reckons what a run over all of them takes.

    Neither the experiment nor what the items came to is stored.
    """

    def __init__(
        self, store: Store, experiments: Experiments, benches: BenchMaker, clock: Clock
    ) -> None:
        self._store = store
        self._experiments = experiments
        self._benches = benches
        self._clock = clock

    async def estimate(
        self, tenant: TenantId, spec: ExperimentSpec, sample: Sample | None = None
    ) -> Rehearsal:
        """Try three items of the experiment's dataset, or those of a dataset that is not stored."""
        # Whether answers are cached would decide everything: three items tell nothing about it.
        spec = msgspec.structs.replace(spec, cache=False)
        given = None if sample is None else _as_version(sample)
        experiment, version = await self._experiments.proposed(tenant, spec, given)
        if sample is None:
            items, turns = await self._store.read(lambda c: _drawn(c, version))
        else:
            items, turns = _items(sample), sample.total_turns
        columns = audio_columns(version.schema)
        target, scores = unpriced_target_and_scores(spec)
        unpriced = {part_of(name): why for name, why in scores.items()}
        return await rehearse(
            items,
            lambda: self._benches.open_rehearsal(experiment, columns),
            total_items=version.items,
            total_turns=turns,
            repetitions=spec.repetitions,
            unpriced=unpriced if target is None else {TARGET: target, **unpriced},
            clock=self._clock,
        )


def _drawn(connection: StoreConnection, version: DatasetVersion) -> tuple[list[Item], int]:
    """The items of a stored version that are tried, and the turns of all of its items."""
    found = [
        datasets.item_at(connection, version.version_id, place)
        for place in positions(version.items)
    ]
    turns = version.items
    if version.max_turns > 1:
        turns = datasets.turns_in(connection, version.version_id)
    return [item for item in found if item is not None], turns


def _items(sample: Sample) -> list[Item]:
    return [
        Item(ItemId(f"i-sample-{number}"), turns, content_id(turns))
        for number, turns in enumerate(sample.items)
    ]


def _as_version(sample: Sample) -> DatasetVersion:
    """The dataset of a sample, as if it were stored; refused if its figures cannot be true."""
    drawn, turns = len(sample.items), sum(len(turns) for turns in sample.items)
    if not 1 <= drawn <= SAMPLE_ITEMS:
        raise _unusable(f"it has {drawn:,} items; give from 1 to {SAMPLE_ITEMS}")
    if any(not turns for turns in sample.items) or any(
        not turn for turns in sample.items for turn in turns
    ):
        raise _unusable("an item has no turns, or a turn no columns")
    if sample.total_items < drawn or sample.total_turns < max(turns, sample.total_items):
        raise _unusable("total_items and total_turns are fewer than what it shows")
    return DatasetVersion(
        version_id=_NOT_STORED,
        dataset_id=DatasetId(""),
        version=0,
        schema=sample.schema,
        items=sample.total_items,
        max_turns=max(len(turns) for turns in sample.items),
        created_at_ms=0,
    )


def _unusable(reason: str) -> InvalidMessage:
    return InvalidMessage(f"`sample` does not fit: {reason}.", details={"field": "sample"})
