"""A limit on the processor's time that a computation may take.

Not on the clock's time: a busy machine must not make a score fail. The limit reaches regular
expressions as well, which look for signals while they search.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

_AGAIN_SECONDS = 0.25
"""Python drops what is raised inside a finalizer; the next signal comes so much later."""


class TooLong(Exception):
    """Raised when a computation has used up its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it took more than {seconds:g} s of the processor's time")


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in what runs inside, once it has taken so much of the processor's time.

    Signals reach a program's main thread only; elsewhere nothing is limited.
    """
    if current_thread() is not main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TooLong(seconds)

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        _stop()
        signal.signal(signal.SIGPROF, before)


def _stop() -> None:
    while True:
        try:
            signal.setitimer(signal.ITIMER_PROF, 0)
        except TooLong:  # the timer was quicker
            continue
        return
