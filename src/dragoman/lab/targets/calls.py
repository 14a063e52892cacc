"""The call that a worker is making, as the target can know of it.

Most targets answer as soon as they can. One that waits in a line of its own, as the fleet's batch
work does, must not have that wait counted as the item's time, and must be able to find again what
it asked for before its worker died.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import msgspec

StillWaits = Callable[[], Awaitable[bool]]


class Stopwatch(Protocol):
    """What counts an item's time."""

    @property
    def limit_seconds(self) -> float | None:
        """The item's whole time; None: no limit."""
        ...

    def pause(self, still_waits: StillWaits | None = None) -> None:
        """Count no more, until `resume`. `still_waits` says whether the call waits even now."""
        ...

    def resume(self) -> None: ...


class TargetCall(msgspec.Struct, frozen=True):
    """A call in progress."""

    key: str | None
    """The same for every try of the same turn in the same run; None outside of runs."""
    stopwatch: Stopwatch


_CURRENT: ContextVar[TargetCall | None] = ContextVar("dragoman_lab_call", default=None)


def current_call() -> TargetCall | None:
    """The call that this task makes for an item; None where no worker made it."""
    return _CURRENT.get()


@contextmanager
def calling(call: TargetCall) -> Iterator[None]:
    """Make the call known to the target inside the block."""
    token = _CURRENT.set(call)
    try:
        yield
    finally:
        _CURRENT.reset(token)
