"""Watches a run until it ends: its progress, and what Ctrl-C does to it.

The first Ctrl-C starts no more calls and lets those in flight finish, since they are paid for;
the second cancels them, and so does SIGTERM. Calls that only wait in the target's line, as batch
work of a fleet does, are given up at the first.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import msgspec

from dragoman.errors import DependencyDown, ExperimentNotRunning, StoreError
from dragoman.lab.model import Stats
from dragoman.lab.states import ENDED, RunStatus

AWAY_SECONDS = 1.0
"""How often to ask a lab again that does not answer."""


class Reached(msgspec.Struct, frozen=True):
    """The progress of a run."""

    status: RunStatus
    stats: Stats
    items: int
    """The number of items, even while their rows are still being made."""
    eta_seconds: float | None = None

    @property
    def done(self) -> int:
        """Items that have ended; those that were stopped do not count."""
        return self.stats.success + self.stats.fail


class Watched(Protocol):
    """A run that can be watched and stopped, wherever it is."""

    async def look(self) -> Reached: ...

    async def stop(self, *, let_finish: bool) -> None:
        """End it: when the calls in flight have ended, or at once."""
        ...

    async def find_again(self) -> None:
        """Look up the lab's address again, after it stopped answering."""
        ...


class Display(Protocol):
    """Where a person sees the progress of a run."""

    def show(self, reached: Reached) -> None: ...

    def say(self, sentence: str) -> None: ...


class Away(Exception):
    """Raised when the user stops watching a run whose lab does not answer."""


class Interrupts:
    """How often the user has pressed Ctrl-C."""

    def __init__(self) -> None:
        self.count = 0
        self._woken = asyncio.Event()

    def press(self, times: int = 1) -> None:
        self.count += times
        self.look_now()

    def look_now(self) -> None:
        """End the wait, if there is one, without a Ctrl-C."""
        self._woken.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Wait until Ctrl-C is pressed, or until the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._woken.wait()
        self._woken.clear()


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Counts Ctrl-C while inside; the third ends the program as it would without this.

    SIGTERM counts as two, unless the program has a way of its own to end by it.
    """
    found = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield found  # only the main thread hears signals
        return
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        found.press()
        if found.count > 1:
            loop.remove_signal_handler(signal.SIGINT)

    def on_term() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        found.press(2)

    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, on_signal)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        loop.add_signal_handler(signal.SIGTERM, on_term)
    try:
        yield found
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


async def watch(
    watched: Watched, interrupted: Interrupts, display: Display, *, look_seconds: float
) -> Reached:
    """Show the run's progress until it ends, and stop it when the user asks for that.

    Waits for a lab that does not answer; raises `Away` when the user stops waiting.
    """
    stops = 0
    is_away = False
    while True:
        try:
            reached = await watched.look()
            if stops < interrupted.count and reached.status not in ENDED:
                pressed = interrupted.count
                with suppress(ExperimentNotRunning):
                    await watched.stop(let_finish=pressed == 1)
                stops = pressed
                display.say(_stopping(reached, stops))
                continue
        except (DependencyDown, StoreError) as error:
            if stops < interrupted.count:
                raise Away from error
            if not is_away:
                display.say(f"{error.message} Waiting for it to come back.")
            is_away = True
            await interrupted.wait(AWAY_SECONDS)
            await watched.find_again()
            continue
        if is_away:
            display.say("The lab answers again.")
            is_away = False
        display.show(reached)
        if reached.status in ENDED:
            return reached
        await interrupted.wait(look_seconds)


def _stopping(reached: Reached, stops: int) -> str:
    if stops > 1:
        return "Cancelling the calls in flight."
    in_flight = reached.stats.processing
    calls = "1 call in flight is" if in_flight == 1 else f"{in_flight} calls in flight are"
    return f"Stopping; the {calls} let finish. Press Ctrl-C again to cancel them."
