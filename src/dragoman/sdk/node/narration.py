"""What a node tells the person who runs it: in the terminal, or in the program's log."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from cachetools import FIFOCache

from dragoman.clock import Clock
from dragoman.live.protocol import Command, Languages, NodeHealth
from dragoman.sdk.node.events import (
    Commanded,
    Disconnected,
    Event,
    FunctionFailed,
    HealthChanged,
    Registered,
    ResultNotSent,
)
from dragoman.sdk.node.job import JobFailed, ModelMissing, WrongAnswer

Say: TypeAlias = Callable[[int, str], None]
"""Writes a text of one of logging's levels."""

_AGAIN_SECONDS = 10.0
"""How often a kind of failure that has been shown is counted aloud."""
_MOST_KINDS = 100
_MAX_END_CHARACTERS = 4_000
"""How much is written of the beginning, and of the end, of a long failure."""

_OURS = str(Path(__file__).parent)
_log = logging.getLogger("dragoman.node")


def to_terminal(level: int, text: str) -> None:
    """Facts go to standard output, problems to standard error."""
    stream = sys.stdout if level < logging.WARNING else sys.stderr
    stream.write(f"{text}\n")
    stream.flush()


def to_log(level: int, text: str) -> None:
    """For a node inside a program, which may have set up logging as it likes."""
    _log.log(level, "%s", text)


class Narrator:
    """Turns events of a node into sentences, each where it says something new."""

    def __init__(self, where: str, languages: Languages, slots: int, clock: Clock) -> None:
        self.say: Say = to_log
        self._where = where
        self._offers = _offers(languages, slots)
        self._failures = _Failures(clock)
        self._name = "The node"
        self._status: NodeHealth | None = None
        self._reason: str | None = None
        self._is_waiting = False
        self.leaving = False
        """The node goes of its own will, so that it drains is no news."""
        self._tellers: Mapping[type[Event], Callable[[Any], None]] = {
            Registered: self._registered,
            Disconnected: self._disconnected,
            HealthChanged: self._health_changed,
            Commanded: self._commanded,
            FunctionFailed: self._function_failed,
            ResultNotSent: self._result_not_sent,
        }

    def tell(self, event: Event) -> None:
        teller = self._tellers.get(type(event))
        if teller is not None:
            teller(event)

    def finish(self) -> None:
        """Tell of failures that were counted and not told."""
        for line in self._failures.rest():
            self.say(logging.WARNING, line)

    def _registered(self, event: Registered) -> None:
        self._is_waiting = False
        self._name = f"Node {event.node_id}"
        self._status = None
        pools = "1 pool" if event.pools == 1 else f"{event.pools} pools"
        self.say(
            logging.INFO,
            f"{self._name} is connected to {self._where}: {self._offers}; {pools},"
            f" cell {event.cell}",
        )
        self._now(event.status, None)

    def _disconnected(self, event: Disconnected) -> None:
        if self._is_waiting:
            return
        self._is_waiting = True
        lost = "Lost the connection to" if event.was_registered else "Cannot register at"
        reason = (event.reason or f"closed with {event.code}").rstrip(".")
        self.say(logging.WARNING, f"{lost} {self._where}: {reason}. Trying again until it works.")

    def _health_changed(self, event: HealthChanged) -> None:
        self._now(event.status, event.reason)

    def _now(self, status: NodeHealth, reason: str | None) -> None:
        if (status, reason) == (self._status, self._reason):
            return
        self._status, self._reason = status, reason
        because = f": {reason.rstrip('.')}" if reason else ""
        if status is NodeHealth.READY and not reason:
            self.say(logging.INFO, f"{self._name} is ready for jobs.")
        elif status is NodeHealth.READY:
            self.say(logging.WARNING, f"{self._name} gets no jobs{because}.")
        elif (status is NodeHealth.REGISTERING and not reason) or self.leaving:
            return  # the first heartbeat follows at once, or the end does
        elif status is NodeHealth.DEGRADED and reason:
            # The reason says what it means for jobs: none, or one at a time.
            self.say(logging.WARNING, f"{self._name} is degraded{because}.")
        else:
            self.say(logging.WARNING, f"{self._name} is {status} and gets no jobs{because}.")

    def _commanded(self, event: Commanded) -> None:
        if event.command is Command.SHUTDOWN:
            because = f" ({event.reason})" if event.reason else ""
            self.say(
                logging.INFO,
                f"{self._name} was told to shut down{because}: it finishes its jobs and leaves.",
            )

    def _function_failed(self, event: FunctionFailed) -> None:
        error = event.error
        meant = isinstance(error, JobFailed | ModelMissing)
        self._failed(
            _kind_of(error),
            f"job {event.job_id}",
            lambda: f"Job {event.job_id} failed{_whole(error)}",
            level=logging.INFO if meant else logging.ERROR,
        )

    def _result_not_sent(self, event: ResultNotSent) -> None:
        reason = event.reason.rstrip(".")
        self._failed(
            f"a result that was not sent: {event.code}",
            f"job {event.job_id}",
            lambda: f"The result of job {event.job_id} was not sent: {reason}.",
        )

    def watcher_failed(self, event: Event, error: Exception) -> None:
        """The node owner's own `on_event` raised."""
        name = type(event).__name__
        self._failed(
            f"{_kind_of(error)} in on_event", name, lambda: f"on_event failed{_whole(error)}"
        )

    def _failed(
        self, kind: str, where: str, whole: Callable[[], str], *, level: int = logging.ERROR
    ) -> None:
        told = self._failures.shown(kind, where, whole)
        if told is not None:
            self.say(level, told)


class _Kind:
    """One kind of failure: how often it happened since it was last told, and where."""

    __slots__ = ("name", "times", "told_at", "where")

    def __init__(self, name: str, told_at: float) -> None:
        self.name = name
        self.told_at = told_at
        self.times = 0
        self.where = ""

    def again(self) -> str:
        times = "once more" if self.times == 1 else f"{self.times} times more"
        return f"The same {times} ({self.name}), last in {self.where}."


class _Failures:
    """Shows each kind of failure once as a whole, and from then on counts it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: FIFOCache[str, _Kind] = FIFOCache(_MOST_KINDS)

    def shown(self, name: str, where: str, whole: Callable[[], str]) -> str | None:
        """What to write about a failure of a kind; None while it is only counted."""
        now = self._clock.monotonic()
        kind = self._kinds.get(name)
        if kind is None:
            self._kinds[name] = _Kind(name, now)
            return _readable(whole())
        kind.times += 1
        kind.where = where
        if now - kind.told_at < _AGAIN_SECONDS:
            return None
        told = kind.again()
        kind.told_at, kind.times = now, 0
        return told

    def rest(self) -> list[str]:
        waiting = [kind for kind in self._kinds.values() if kind.times]
        told = [kind.again() for kind in waiting]
        for kind in waiting:
            kind.times = 0
        return told


def _whole(error: BaseException) -> str:
    """What follows "failed": the words of a failure that was meant, the traceback of another."""
    if isinstance(error, JobFailed):
        return f" with {error.error.code}: {error.message}"
    if isinstance(error, WrongAnswer | ModelMissing):
        return f": {error}"
    trace = _own_frames(error.__traceback__)
    lines = traceback.format_exception(type(error), error, trace)
    return f":\n{''.join(lines).rstrip()}"


def _readable(text: str) -> str:
    """The text without its middle when it is long, and without what steers a terminal.

    Exceptions quote what they were given, and that may come from a client.
    """
    left_out = len(text) - 2 * _MAX_END_CHARACTERS
    if left_out > 0:
        first, last = text[:_MAX_END_CHARACTERS], text[-_MAX_END_CHARACTERS:]
        text = f"{first}\n[{left_out} characters are left out]\n{last}"
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the node owner's function on; ours before it tell them nothing."""
    frames = trace
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    return frames or trace


def _kind_of(error: BaseException) -> str:
    """What makes two failures the same: the class and the place, not the words."""
    if isinstance(error, WrongAnswer):
        return error.fault
    name = error.error.code if isinstance(error, JobFailed) else type(error).__name__
    frames = _own_frames(error.__traceback__)
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    if frames is None:
        return name
    return f"{name} at {Path(frames.tb_frame.f_code.co_filename).name}:{frames.tb_lineno}"


def _offers(languages: Languages, slots: int) -> str:
    """Slots and languages, as in ``2 slots, nmt en es``."""
    stages = {
        "asr": languages.asr_langs,
        "semantic": languages.semantic_langs,
        "nmt": languages.nmt_langs,
        "tts": languages.tts_langs,
    }
    spoken = [f"{stage} {' '.join(tags)}" for stage, tags in stages.items() if tags]
    return ", ".join(["1 slot" if slots == 1 else f"{slots} slots", *spoken])
