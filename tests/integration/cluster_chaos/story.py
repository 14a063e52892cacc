"""All records of a run, put in order for the checker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TypeVar

from tests.integration.cluster_chaos.faults import LOSES_DATA, Kind
from tests.integration.cluster_chaos.records import Fault, Record, Stalled

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

AFTERMATH_SECONDS = 20.0
"""How long a fault that is over may still be felt: nodes reconnect, leases run out.

Time in which a process was starved does not count: nothing is mended meanwhile.
"""

STALL_AFTERMATH_SECONDS = 5.0
"""How long after a process stood still, unplanned, what it did late may still be felt."""

SUPERSEDED = 4409


class Story:
    """What happened, in the order in which it did."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = sorted(records, key=lambda record: record.at)
        self.faults = self.of(Fault)
        self._stalls = _joined((stall.at, stall.until) for stall in self.of(Stalled))

    def of(self, kind: type[T]) -> list[T]:
        """The records of a kind."""
        return [record for record in self._records if isinstance(record, kind)]

    def disturbed(
        self,
        since: float,
        until: float,
        whom: Collection[str] | None = None,
        aftermath_seconds: float = AFTERMATH_SECONDS,
    ) -> bool:
        """Whether a fault could be felt in this time, by these; None means by all."""
        return any(
            fault.at <= until
            and self._working_seconds(fault.until, since) <= aftermath_seconds
            and (whom is None or fault.whom in whom)
            for fault in self.faults
        )

    def stalled(self, since: float, until: float) -> bool:
        """Whether a process had too little of the machine for its time limits to mean anything.

        A busy machine makes acknowledgements late, and late is what failover is for. That is not
        guessed from the load: every process is asked how late it is.
        """
        return any(
            began <= until and since <= ended + STALL_AFTERMATH_SECONDS
            for began, ended in self._stalls
        )

    def lost_data(self, since: float, until: float) -> bool:
        """Whether Redis forgot something that could matter in this time."""
        return any(
            Kind(fault.kind) in LOSES_DATA
            and fault.at <= until
            and self._working_seconds(fault.until, since) <= AFTERMATH_SECONDS
            for fault in self.faults
        )

    def _working_seconds(self, since: float, until: float) -> float:
        """How much of this time no process was starved; not more than zero when it is none."""
        starved = sum(
            max(0.0, min(ended, until) - max(began, since)) for began, ended in self._stalls
        )
        return until - since - starved


def _joined(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same times without overlaps, in order."""
    joined: list[tuple[float, float]] = []
    for began, ended in sorted(spans):
        if joined and began <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(ended, joined[-1][1]))
        else:
            joined.append((began, ended))
    return joined


def grouped(records: Iterable[T], key: Callable[[T], K]) -> defaultdict[K, list[T]]:
    """The records by something that they share, each group in its order."""
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return groups
