"""All records of a run, put in order for the checker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from tests.integration.cluster_chaos.faults import LOSES_DATA, Kind
from tests.integration.cluster_chaos.records import Fault, Record, Stalled
from tests.integration.cluster_chaos.stalls import LATE_SECONDS

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Span: TypeAlias = tuple[float, float]

AFTERMATH_SECONDS = 20.0
"""How long a fault that is over may still be felt: nodes reconnect, leases run out.

Time in which those that mend it stood still, unplanned, does not count.
"""

ACK_SECONDS = 3.0
"""As in the instances' settings: the shortest time limit that a node and its instance are held to.
An attempt may have been on its way for so long."""

_HANDS = 10
"""An attempt and its acknowledgement pass about so many."""

EXPLAINS_SECONDS = ACK_SECONDS - _HANDS * LATE_SECONDS
"""How long those that an attempt depends on must have stood still for a time limit to pass.
Each hand may take a little longer than usual without having been seen to stand still."""

SUPERSEDED = 4409


class Story:
    """What happened, in the order in which it did."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = sorted(records, key=lambda record: record.at)
        self.faults = self.of(Fault)
        self._stalls = self._unplanned_stalls()

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
            and self._working_seconds(fault.until, since, whom) <= aftermath_seconds
            and (whom is None or fault.whom in whom)
            for fault in self.faults
        )

    def stalled_seconds(
        self, since: float, until: float, whom: Collection[str] | None = None
    ) -> float:
        """How much of this time one of these or another stood still, unplanned; None means all.

        A busy machine makes acknowledgements late, and late is what failover is for. That is not
        guessed from the load: every process is asked how late it is.
        """
        spans = (
            span
            for name, own in self._stalls.items()
            if whom is None or name in whom
            for span in own
        )
        return sum(
            max(0.0, min(ended, until) - max(began, since)) for began, ended in _joined(spans)
        )

    def lost_data(self, since: float, until: float) -> bool:
        """Whether Redis forgot something that could matter in this time."""
        return any(
            Kind(fault.kind) in LOSES_DATA
            and fault.at <= until
            and self._working_seconds(fault.until, since, None) <= AFTERMATH_SECONDS
            for fault in self.faults
        )

    def _working_seconds(self, since: float, until: float, whom: Collection[str] | None) -> float:
        """How much of this time all of these worked; not more than zero when it is none."""
        return until - since - self.stalled_seconds(since, until, whom)

    def _unplanned_stalls(self) -> dict[str, list[Span]]:
        """When each process stood still, but for the time in which the plan had it broken.

        The fault speaks for that time, and excuses what the plan allows.
        """
        planned = grouped(self.faults, lambda fault: fault.whom)
        stalls = grouped(self.of(Stalled), lambda stall: stall.whom)
        return {
            whom: [
                span for stall in own for span in _without((stall.at, stall.until), planned[whom])
            ]
            for whom, own in stalls.items()
        }


def _without(span: Span, faults: Sequence[Fault]) -> Iterator[Span]:
    """What is left of a time when these faults are taken out of it."""
    began, ended = span
    for fault in sorted(faults, key=lambda fault: fault.at):
        if fault.until <= began or fault.at >= ended:
            continue
        if fault.at > began:
            yield began, fault.at
        began = max(began, fault.until)
    if began < ended:
        yield began, ended


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The same times without overlaps, in order."""
    joined: list[Span] = []
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
