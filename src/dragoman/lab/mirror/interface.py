"""What every mirror can do. Calls may take long: they are made in threads, never on the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from dragoman.errors import DragomanError
from dragoman.lab.mirror.batches import Batch, Slots
from dragoman.lab.mirror.dialects import Dialect
from dragoman.lab.mirror.queries import Query
from dragoman.lab.model import ExperimentId


class MirrorAway(DragomanError):
    """Raised when the mirror cannot be reached, or fails; the database still has everything."""

    code = "SCHEDULER_DEPENDENCY_DOWN"
    status = 503


class BadPattern(DragomanError):
    """Raised when a mirror refuses a pattern of `matches`."""

    code = "INVALID_FILTER"
    status = 422


class TooSlow(DragomanError):
    """Raised when an answer takes longer than a question may keep the mirror busy."""

    code = "INVALID_FILTER"
    status = 422


ANSWER_SECONDS = 30.0
"""How long a question may take; one that takes longer looks at too much."""


def too_slow() -> TooSlow:
    return TooSlow(
        f"The answer takes longer than {ANSWER_SECONDS:g} seconds; use a filter that looks at less."
    )


class MirrorIdentity(msgspec.Struct, frozen=True):
    """Which copy this is, and how far it got."""

    mirror_id: str
    flush_no: int
    complete: bool
    """False while the first copy of everything is being made."""


class MirrorReader(Protocol):
    """Answers questions."""

    @property
    def dialect(self) -> Dialect: ...

    def slots(self, experiment_id: ExperimentId) -> Slots:
        """Which column holds which field of an experiment."""

    def ask(self, query: Query) -> list[tuple[Any, ...]]:
        """The rows that a query answers."""


class Mirror(ABC):
    """A columnar copy of results."""

    dialect: Dialect
    has_snapshots: bool
    """Whether several questions can be asked of the same state, whatever is written meanwhile."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[MirrorReader]:
        """A reader for several questions; of one state, where the mirror has snapshots."""

    @abstractmethod
    def identity(self) -> MirrorIdentity | None:
        """Which copy this is; None when there is nothing here yet."""

    @abstractmethod
    def begin(self, mirror_id: str) -> None:
        """Throw everything away and begin a new copy."""

    @abstractmethod
    def apply(self, batch: Batch) -> None:
        """Write changes. The same batch may come twice, after a crash: the outcome is the same."""

    @abstractmethod
    def set_complete(self) -> None:
        """The first copy has everything."""

    @abstractmethod
    def slots(self, experiment_id: ExperimentId) -> Slots:
        """Which column holds which field of an experiment."""

    @abstractmethod
    def ask(self, query: Query) -> list[tuple[Any, ...]]:
        """The rows that a query answers."""

    @abstractmethod
    def tidy(self, *, quiet: bool) -> None:
        """Give memory back, if it is time to. Called between writes, by the task that writes.

        `quiet` says that nothing has been written for some seconds.
        """

    @abstractmethod
    def close(self) -> None:
        """Close it."""
