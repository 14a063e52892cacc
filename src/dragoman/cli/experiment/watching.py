"""Watching a run until it ends, in a lab that is asked over HTTP."""

from __future__ import annotations

import asyncio

from rich.console import Console

from dragoman.api import ExperimentView
from dragoman.cli.lab.client import LabClient
from dragoman.lab.running import Interrupts, Reached, shown_on, watch
from dragoman.lab.states import ENDED, RunStatus

LOOK_SECONDS = 0.3
"""How often the command asks the lab for the run's progress."""


class Stopped(Exception):
    """Raised when the user stopped the run that the command was watching."""

    def __init__(self, experiment: ExperimentView) -> None:
        super().__init__(experiment.name)
        self.experiment = experiment


class _Watched:
    """A run in a lab that is asked over HTTP."""

    def __init__(self, lab: LabClient, experiment_id: str) -> None:
        self._lab = lab
        self._experiment_id = experiment_id
        self.found: ExperimentView | None = None

    async def look(self) -> Reached:
        self.found = found = await self._lab.show(self._experiment_id)
        return Reached(RunStatus(found.status), found.stats, found.items, found.eta_seconds)

    async def stop(self, *, let_finish: bool) -> None:
        await self._lab.kill(self._experiment_id, let_finish=let_finish)

    async def find_again(self) -> None:
        await self._lab.find_again()


async def watch_experiment(
    lab: LabClient, experiment_id: str, interrupted: Interrupts, *, console: Console
) -> ExperimentView:
    """Show the run's progress until it ends; raises `Stopped` when Ctrl-C ended it."""
    watched = _Watched(lab, experiment_id)
    with shown_on(console) as display:
        await watch(watched, interrupted, display, look_seconds=LOOK_SECONDS)
    assert watched.found is not None
    if interrupted.count:
        raise Stopped(watched.found)
    return watched.found


async def until_ended(lab: LabClient, experiment_id: str) -> None:
    """Wait until the run is over."""
    while (await lab.show(experiment_id)).status not in ENDED:  # noqa: ASYNC110 - it may be elsewhere
        await asyncio.sleep(LOOK_SECONDS)
