"""What is noted while a scenario is played: raw figures, by stream of work, hour and group."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.simulation.scenario import HOUR_SECONDS, FleetGroup, Scenario

MINUTE_SECONDS = 60.0
_MOST_VIOLATIONS = 20


@dataclass(frozen=True)
class Stream:
    """Work of one traffic for one language pair."""

    traffic: str
    pair: str


@dataclass
class StreamOutcomes:
    """How the work of one stream went that was asked for in one hour."""

    served: int = 0
    unserved: Counter[str] = field(default_factory=Counter)
    """By reason: the code of the error that its caller was told."""
    waits_ms: array[float] = field(default_factory=lambda: array("f"))
    """How long each that was served waited for a slot."""
    totals_ms: array[float] = field(default_factory=lambda: array("f"))
    """From the end of the input to the result, as the caller sees it."""
    attempts: int = 0
    """Attempts that were made for what was served."""


@dataclass
class SlotUse:
    """How many slots a group of nodes had, and how many worked, over time."""

    busy_seconds: float = 0.0
    slot_seconds: float = 0.0


class GroupUse:
    """Keeps count of a group's slots while nodes come, work and go."""

    def __init__(self, group: FleetGroup) -> None:
        self.group = group
        self.busy = 0
        self.slots = 0
        """Of the nodes that are connected."""
        self.most_busy = 0
        self.by_minute: dict[int, SlotUse] = {}
        self._since = 0.0
        self._origin = 0.0
        self._now_in = SlotUse()
        """The minute that is under way."""
        self._minute_ends = 0.0
        self._finished = False

    def begins_at(self, now: float) -> None:
        """Forget what was before."""
        self._origin = self._since = self._minute_ends = now
        self.by_minute.clear()
        self.most_busy = self.busy

    def changed(self, now: float, *, busy: int = 0, slots: int = 0) -> None:
        """So many slots more, or fewer, are busy, or there."""
        if now > self._minute_ends:
            self._go_through_minutes(now)
        elapsed, self._since = now - self._since, now
        self._now_in.busy_seconds += self.busy * elapsed
        self._now_in.slot_seconds += self.slots * elapsed
        self.busy += busy
        self.slots += slots
        if self.busy > self.most_busy:
            self.most_busy = self.busy

    def finish(self, now: float) -> None:
        """What comes later is not counted."""
        self.changed(now)
        self._finished = True
        self._now_in = SlotUse()

    def _go_through_minutes(self, now: float) -> None:
        """Count up to the beginning of the minute that is now, and begin that one."""
        while now > self._minute_ends:
            elapsed, self._since = self._minute_ends - self._since, self._minute_ends
            self._now_in.busy_seconds += self.busy * elapsed
            self._now_in.slot_seconds += self.slots * elapsed
            minute = round((self._minute_ends - self._origin) / MINUTE_SECONDS)
            self._now_in = SlotUse()
            if not self._finished:
                self.by_minute[minute] = self._now_in
            self._minute_ends += MINUTE_SECONDS


class RunRecorder:
    """The raw figures of one run."""

    def __init__(self, scenario: Scenario) -> None:
        self.streams: list[Stream] = [
            Stream(traffic.name, pair) for traffic in scenario.traffic for pair in traffic.pairs
        ]
        self.outcomes: dict[tuple[int, int], StreamOutcomes] = {}
        """By stream and by hour since the midnight before the scenario began."""
        self.refused_by_minute: dict[int, Counter[tuple[int, str]]] = {}
        """What was asked for in a minute and not served, by stream and reason."""
        self.groups = [GroupUse(group) for group in scenario.fleet]
        self.sessions_refused = 0
        self.sessions_opened = 0
        self.faults: list[tuple[float, str]] = []
        """When something went wrong by plan or by chance, and what."""
        self.violations: list[str] = []
        """Promises of the scheduler that it did not keep."""
        self.violations_total = 0
        self._counts_from = scenario.warmup_seconds
        self._counts_until = scenario.duration_seconds
        self._start = scenario.start_second_of_day
        self._origin = 0.0

    def begins_at(self, now: float) -> None:
        """The scenario's own clock begins; all times are told by the loop's."""
        self._origin = now
        for group in self.groups:
            group.begins_at(now)

    def first_stream_of(self, traffic: str) -> int:
        return next(i for i, stream in enumerate(self.streams) if stream.traffic == traffic)

    def served(
        self, stream: int, asked_at: float, wait_ms: float, total_ms: float, attempts: int
    ) -> None:
        """An utterance or a job has its result."""
        asked_at -= self._origin
        if not self._counts_from <= asked_at <= self._counts_until:
            return
        outcomes = self._outcomes(stream, asked_at)
        outcomes.served += 1
        outcomes.attempts += attempts
        outcomes.waits_ms.append(wait_ms)
        outcomes.totals_ms.append(total_ms)

    def unserved(self, stream: int, asked_at: float, reason: str) -> None:
        """An utterance or a job has no result."""
        asked_at -= self._origin
        if not self._counts_from <= asked_at <= self._counts_until:
            return
        self._outcomes(stream, asked_at).unserved[reason] += 1
        minute = int(asked_at // MINUTE_SECONDS)
        self.refused_by_minute.setdefault(minute, Counter())[stream, reason] += 1

    def broke(self, now: float, promise: str) -> None:
        """The scheduler did not keep a promise that it makes always."""
        self.violations_total += 1
        if len(self.violations) < _MOST_VIOLATIONS:
            self.violations.append(f"{now:.3f} s: {promise}")

    def finish(self, now: float) -> None:
        """The run is over."""
        for group in self.groups:
            group.finish(now)

    def _outcomes(self, stream: int, asked_at: float) -> StreamOutcomes:
        key = stream, int((self._start + asked_at) // HOUR_SECONDS)
        found = self.outcomes.get(key)
        if found is None:
            found = self.outcomes[key] = StreamOutcomes()
        return found


def pooled(outcomes: Sequence[StreamOutcomes]) -> StreamOutcomes:
    """Several hours or streams as one."""
    whole = StreamOutcomes()
    for part in outcomes:
        whole.served += part.served
        whole.attempts += part.attempts
        whole.unserved.update(part.unserved)
        whole.waits_ms.extend(part.waits_ms)
        whole.totals_ms.extend(part.totals_ms)
    return whole
