"""How busy a node's machine is, and whether that leaves the node out.

One heartbeat says little: a machine that loads a model, or that was measured over a few
milliseconds, looks full. So the mean of the last three is compared, and the first sample of a
process, which spans no time worth measuring, does not count.
"""

from __future__ import annotations

from collections import deque

import msgspec

from dragoman.live.protocol import Resource, ResourceUsage

SAMPLES = 3
_FEWEST_SAMPLES = 2
"""A single busy heartbeat is no mean."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The percentage at which each resource leaves a node out; 0: never."""

    cpu: float = 0.0
    mem: float = 0.0
    gpu: float = 0.0
    gpu_mem: float = 0.0

    def of(self, resource: Resource) -> float:
        percent: float = getattr(self, resource.value)
        return percent


class ResourceMean(msgspec.Struct, frozen=True, array_like=True):
    """One resource over the last heartbeats."""

    resource: Resource
    mean_percent: float
    over: bool
    """At or over its threshold."""


class RecentUsage:
    """What the last heartbeats of a node said about its machine."""

    __slots__ = ("_samples", "_since_busy", "_started", "_thresholds", "over")

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._samples: deque[ResourceUsage] = deque(maxlen=SAMPLES)
        self._started = False
        self._since_busy = SAMPLES
        """Samples since one was at or over a threshold."""
        self.over = False
        """Whether the mean of any resource is at or over its threshold."""

    def restart(self) -> None:
        """The next sample is the first of its process, or may be."""
        self._started = False

    def add(self, usage: ResourceUsage) -> None:
        if not self._started:
            self._started = True
            return
        self._samples.append(usage)
        self._since_busy = 0 if self._is_busy(usage) else self._since_busy + 1
        # A mean is never over its threshold while no sample is: most heartbeats end here.
        self.over = self._since_busy < SAMPLES and any(mean.over for mean in self.means())

    def means(self) -> tuple[ResourceMean, ...]:
        """The resources that were reported, each with its mean and its verdict."""
        found = []
        for resource in Resource:
            percents = [
                percent
                for sample in self._samples
                if (percent := getattr(sample, f"{resource.value}_percent")) is not None
            ]
            if percents:
                mean = sum(percents) / len(percents)
                limit = self._thresholds.of(resource)
                over = 0 < limit <= mean and len(percents) >= _FEWEST_SAMPLES
                found.append(ResourceMean(resource, round(mean, 1), over))
        return tuple(found)

    def _is_busy(self, usage: ResourceUsage) -> bool:
        limits = self._thresholds
        return (
            0 < limits.cpu <= usage.cpu_percent
            or 0 < limits.mem <= usage.mem_percent
            or (usage.gpu_percent is not None and 0 < limits.gpu <= usage.gpu_percent)
            or (usage.gpu_mem_percent is not None and 0 < limits.gpu_mem <= usage.gpu_mem_percent)
        )
