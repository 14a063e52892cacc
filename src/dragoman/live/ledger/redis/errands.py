"""What can wait a moment, and saves a call by going along with the next one to the same place."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dragoman.errors import DependencyDown


class Errands:
    """Names to be told to tags of one kind, each with the next call there, or soon without one.

    Nothing is told out of turn: a caller that would notice asks `run` first. What could not be
    told is told again later; telling twice does no harm. What a dying process has not told is
    swept up.
    """

    def __init__(
        self, tell: Callable[[int, Sequence[str]], Future[Any]], patience_seconds: float
    ) -> None:
        """tell makes the call that exists for nothing else."""
        self._tell = tell
        self._patience_seconds = patience_seconds
        self._waiting: dict[int, list[str]] = {}
        self._since_last_look: set[int] = set()
        self._underway: set[Future[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, tag: int, names: Sequence[str]) -> None:
        """Have names told to a tag."""
        if self._closed or not names:
            return
        self._waiting.setdefault(tag, []).extend(names)
        self._since_last_look.add(tag)
        if self._timer is None:
            self._look_later()

    def take(self, tag: int) -> Sequence[str]:
        """What goes along with a call to the tag; `went` hears how the call fared."""
        return self._waiting.pop(tag, ())

    def went(self, tag: int, names: Sequence[str], call: Future[Any]) -> None:
        """Names are on their way with a call."""
        self._underway.add(call)
        call.add_done_callback(partial(self._arrived, tag, names))

    def run(self, tag: int) -> None:
        """Tell a tag now, in a call of its own."""
        names = self._waiting.pop(tag, ())
        if names:
            self.went(tag, names, self._tell(tag, names))

    async def finish(self) -> None:
        """Tell everything that waits, as far as Redis answers, and take no more."""
        self._closed = True
        for tag in tuple(self._waiting):
            self.run(tag)
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._underway, return_exceptions=True)

    def _arrived(self, tag: int, names: Sequence[str], call: Future[Any]) -> None:
        self._underway.discard(call)
        if not call.cancelled() and isinstance(call.exception(), DependencyDown):
            self.add(tag, names)

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience_seconds, self._look)

    def _look(self) -> None:
        """Run the errands that have waited since before the last look."""
        self._timer = None
        fresh, self._since_last_look = self._since_last_look, set()
        for tag in self._waiting.keys() - fresh:
            self.run(tag)
        if self._waiting:
            self._look_later()
