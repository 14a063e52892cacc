"""Takes items that were handed out, with everything that is needed to carry them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.lab.budgets import Quota
from dragoman.lab.evaluators import Score
from dragoman.lab.failures import Failure
from dragoman.lab.model import Experiment, Item, ItemKey, Run, RunId
from dragoman.lab.repository import (
    Lease,
    Leftovers,
    experiments,
    items,
    reusing,
    runs,
    spending,
)
from dragoman.lab.states import RunMode
from dragoman.lab.targets import Output
from dragoman.lab.worker.execution import Reusable
from dragoman.store import StoreConnection


class TakenItem(msgspec.Struct, frozen=True):
    """An item that the worker took, and what it can reuse."""

    lease: Lease
    item: Item
    past: Reusable


def run_and_experiment(connection: StoreConnection, run_id: RunId) -> tuple[Run, Experiment] | None:
    """The run with its experiment; None when it is gone."""
    run = runs.find_run(connection, run_id)
    if run is None:
        return None
    found = experiments.find_experiment(connection, run.experiment_id)
    return None if found is None else (run, found)


def take(
    connection: StoreConnection,
    experiment: Experiment,
    run: Run,
    keys: Sequence[ItemKey],
    most: int,
    owner: str,
    lease_ms: int,
) -> list[TakenItem]:
    """Lease those of the items that are still free, or any so many, and read them."""
    if keys:
        leases = items.take(connection, run.run_id, keys, owner, lease_ms)
    else:
        leases = items.take_any(connection, run.run_id, most, owner, lease_ms)
    return _with_contents(connection, experiment, run, leases)


class NextItems(msgspec.Struct, frozen=True):
    """What a worker would take of a run in the places of items that end."""

    run: Run
    experiment: Experiment
    places: int
    """Items that may begin at once."""
    ahead: int
    """Items to set aside for those that end next."""


def take_next(
    connection: StoreConnection, wanted: NextItems, owner: str, lease_ms: int, limits: Quota
) -> list[TakenItem]:
    """Take the next items of a run for places that it has already, the first ones to begin at once.

    Where anything has a budget, none: the driver compares what is used up with the budget before
    it hands out each item.
    """
    run_id = wanted.run.run_id
    if not spending.is_without_budget(connection, run_id, limits):
        return []
    leases = items.take_next(
        connection, run_id, owner, lease_ms, places=wanted.places, ahead=wanted.ahead
    )
    return _with_contents(connection, wanted.experiment, wanted.run, leases) if leases else []


def _with_contents(
    connection: StoreConnection, experiment: Experiment, run: Run, leases: Sequence[Lease]
) -> list[TakenItem]:
    known = items.read_items(connection, [lease.item_id for lease in leases])
    pairs = [(lease, known[lease.item_id]) for lease in leases]
    numbers = experiment.spec.numbers
    left = reusing.leftovers(connection, pairs, numbers.values())
    if run.mode is RunMode.SCORE:
        left = reusing.with_failures(connection, experiment.experiment_id, pairs, left)
    names = {number: name for name, number in numbers.items()}
    return [
        TakenItem(lease, item, _reusable(lease, found, names))
        for (lease, item), found in zip(pairs, left, strict=True)
    ]


def _reusable(lease: Lease, left: Leftovers, names: Mapping[int, str]) -> Reusable:
    return Reusable(
        outputs={
            turn_no: Output(
                stored.columns,
                stored.main,
                stored.tokens,
                stored.cost,
                stored.latency_ms,
                stored.first_token_ms,
                stored.cached,
            )
            for turn_no, stored in left.outputs.items()
        },
        scores={
            turn_no: {
                names[number]: Score(
                    stored.score, stored.label, stored.reason, statistics=stored.statistics
                )
                for number, stored in scores.items()
            }
            for turn_no, scores in left.scores.items()
        },
        failures={
            turn_no: Failure(code, message) for turn_no, (code, message) in left.failures.items()
        },
        first_try=lease.try_no - lease.first_try_no + 1,
    )
