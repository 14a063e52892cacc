"""Shows the progress of a run on a terminal, in a notebook, or not at all."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
)
from rich.text import Text

from dragoman.lab.running.watching import Display, Reached


class _Elapsed(ProgressColumn):
    """The time since the bar was first shown, independent of the counts."""

    def render(self, task: Task) -> Text:
        return Text(str(timedelta(seconds=int(task.elapsed or 0))), style="progress.elapsed")


class _Bar:
    """A bar on a terminal."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}"),
            _Elapsed(),
            console=console,
            transient=True,
        )
        self._task = self.progress.add_task("pending", total=None, detail="")

    def show(self, reached: Reached) -> None:
        self.progress.update(
            self._task,
            description=reached.status,
            completed=reached.done,
            total=reached.items or None,
            detail=_detail(reached),
        )

    def say(self, sentence: str) -> None:
        self.progress.console.print(Text(sentence))


class _Cell:
    """A line in the output of a notebook's cell, overwritten as the run goes on."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._said: list[str] = []
        self._began = time.monotonic()

    def show(self, reached: Reached) -> None:
        elapsed = timedelta(seconds=int(time.monotonic() - self._began))
        parts = (f"{reached.status} {reached.done}/{reached.items}", _detail(reached), f"{elapsed}")
        self._update(" · ".join(part for part in parts if part))

    def say(self, sentence: str) -> None:
        self._said.append(sentence)
        self._update("")

    def _update(self, line: str) -> None:
        text = "\n".join([*self._said, line])
        self._handle.update({"text/plain": text}, raw=True)


class Quiet:
    """Prints sentences on standard error, and no progress."""

    def show(self, reached: Reached) -> None:
        pass

    def say(self, sentence: str) -> None:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()


@contextmanager
def shown_on(console: Console) -> Iterator[Display]:
    """A bar on the console; without a terminal, only sentences."""
    if not console.is_terminal:
        yield Quiet()
        return
    bar = _Bar(console)
    with bar.progress:
        yield bar


@contextmanager
def shown_here(wanted: bool | None) -> Iterator[Display]:
    """Where this program's user looks: a notebook's cell or a terminal.

    `wanted`: False shows nothing, True shows a bar even without a terminal.
    """
    shell = notebook() if wanted is not False else None
    if shell is not None:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        yield _Cell(display({"text/plain": ""}, raw=True, display_id=True))
    elif wanted is False:
        yield Quiet()
    else:
        with shown_on(Console(stderr=True, force_terminal=True if wanted else None)) as bar:
            yield bar


def notebook() -> Any:
    """The notebook's shell that this program runs in; None elsewhere."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


def _detail(reached: Reached) -> str:
    parts = [f"{reached.stats.fail} failed"] if reached.stats.fail else []
    if reached.eta_seconds is not None:
        parts.append(f"{reached.eta_seconds:.0f} s left")
    return " · ".join(parts)
