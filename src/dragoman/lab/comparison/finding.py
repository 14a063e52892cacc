"""Finding the runs that a user names, and the last one before."""

from __future__ import annotations

import re

import msgspec

from dragoman.errors import InvalidMessage, NotFound
from dragoman.ids import TenantId
from dragoman.lab.comparison.compared import RunLabel
from dragoman.lab.model import EvaluatorSpec, Experiment, Run, RunId
from dragoman.lab.repository import experiments, pairing, runs
from dragoman.lab.states import RunMode, RunStatus
from dragoman.store import StoreConnection

_NUMBERED = re.compile(r"(.+) #\d+")
_WHOLE = (RunMode.SUBMIT, RunMode.RETRY_ALL)
"""Modes of runs that call the target for every item."""


class Contestant(msgspec.Struct, frozen=True):
    """An experiment as it stands, or one of its runs."""

    experiment: Experiment
    run: Run | None = None

    @property
    def run_id(self) -> RunId | None:
        return None if self.run is None else self.run.run_id

    @property
    def evaluators(self) -> tuple[EvaluatorSpec, ...]:
        of_run = None if self.run is None else self.run.evaluators
        return self.experiment.spec.evaluators if of_run is None else of_run

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The numbers of the evaluators whose scores are meant; None: all that the run has."""
        return None if self.run else self.experiment.spec.evaluator_numbers or None

    @property
    def label(self) -> RunLabel:
        name = self.experiment.spec.name
        return RunLabel(
            experiment_id=self.experiment.experiment_id,
            name=name if self.run is None else f"{name}, {self.run.run_id}",
            status=(self.run or self.experiment).status,
            run_id=self.run_id,
        )


def find_contestant(connection: StoreConnection, tenant: TenantId, named: str) -> Contestant:
    """What a user names: an experiment by name or id, or a run by its id."""
    found = experiments.find_by_name(connection, tenant, named)
    found = found or experiments.find_experiment(connection, named, tenant=tenant)
    if found is not None:
        if found.run_id is None:
            raise InvalidMessage(
                f"{found.spec.name!r} has not been run; there is nothing to compare."
            )
        return Contestant(found)
    run = runs.find_run(connection, RunId(named))
    if run is not None and run.tenant == tenant:
        of_run = experiments.find_experiment(connection, run.experiment_id, tenant=tenant)
        if of_run is not None:
            return Contestant(of_run, run)
    raise NotFound(
        f"No experiment has the name or the id {named!r}, and no run has that id; "
        "`dragoman experiment list` shows them."
    )


def find_last(
    connection: StoreConnection, tenant: TenantId, other: Contestant
) -> Contestant | None:
    """The last finished run of the same experiment before this one; None when it is the first.

    That is an earlier run of the whole experiment, or an earlier experiment of the same name
    (`NAME`, `NAME #2`, ...) that succeeded.
    """
    experiment = other.experiment
    every = runs.runs_of(connection, experiment.experiment_id)
    run_id = other.run_id or experiment.run_id
    place = next((n for n, run in enumerate(every) if run.run_id == run_id), len(every))
    # What a retry of some items or a new scoring left belongs to the run before it.
    while place < len(every) and every[place].mode not in _WHOLE:
        place += 1
    for run in every[place + 1 :]:
        if run.mode in _WHOLE and run.status is RunStatus.SUCCESS:
            return Contestant(experiment, run)
    name = experiment.spec.name
    numbered = _NUMBERED.fullmatch(name)
    first = numbered[1] if numbered else name
    namesake = re.compile(rf"{re.escape(first)}(?: #\d+)?")
    before = (experiment.created_at_ms, experiment.experiment_id)
    for experiment_id, found in pairing.finished_namesakes(connection, tenant, first, before):
        if namesake.fullmatch(found) is None:
            continue
        earlier = experiments.find_experiment(connection, experiment_id, tenant=tenant)
        if earlier is not None:
            return Contestant(earlier)
    return None
