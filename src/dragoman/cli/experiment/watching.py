"""Staying with a run until it ends: a progress bar, and Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from dragoman.api import ExperimentView
from dragoman.cli.lab.client import LabClient
from dragoman.errors import ExperimentNotRunning
from dragoman.lab.states import ENDED

LOOK_SECONDS = 0.3
"""How often the lab is asked how far it is."""


class Stopped(Exception):
    """Raised when the user stopped a run that they were watching."""

    def __init__(self, experiment: ExperimentView) -> None:
        super().__init__(experiment.name)
        self.experiment = experiment


async def watch(
    lab: LabClient, experiment_id: str, interrupted: asyncio.Event, *, console: Console
) -> ExperimentView:
    """Show how far the run is until it has ended; `Stopped` when Ctrl-C ended it."""
    with _progress(console) as (progress, task):
        while True:
            found = await lab.show(experiment_id)
            _show(progress, task, found)
            if found.status in ENDED:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(interrupted.wait(), LOOK_SECONDS)
            if interrupted.is_set():
                with suppress(ExperimentNotRunning):
                    await lab.kill(experiment_id)
                progress.update(task, description="stopping")
    if interrupted.is_set():
        raise Stopped(found)
    return found


async def until_ended(lab: LabClient, experiment_id: str) -> None:
    """Wait until the run is over."""
    while (await lab.show(experiment_id)).status not in ENDED:  # noqa: ASYNC110 - it may be elsewhere
        await asyncio.sleep(LOOK_SECONDS)


@contextmanager
def interrupts() -> Iterator[asyncio.Event]:
    """The event that the first Ctrl-C sets; the second ends the program at once."""
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()

    def on_signal() -> None:
        interrupted.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, on_signal)
    try:
        yield interrupted
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def _progress(console: Console) -> Iterator[tuple[Progress, TaskID]]:
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield progress, progress.add_task("pending", total=None, detail="")


def _show(progress: Progress, task: TaskID, found: ExperimentView) -> None:
    stats = found.stats
    ended = stats.success + stats.fail + stats.terminated
    total = ended + stats.queueing + stats.processing
    detail = f"{stats.fail} failed" if stats.fail else ""
    if found.eta_seconds is not None:
        detail = f"{detail} · {found.eta_seconds:.0f} s left".removeprefix(" · ")
    progress.update(
        task, description=found.status, completed=ended, total=total or None, detail=detail
    )
