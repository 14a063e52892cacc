"""What instances and Redis tell about themselves, read twice to see what happened between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from benchmarks.full_job.load import Address

_JOBS = "scheduler_jobs_total"
_OPERATIONS = "scheduler_redis_op_seconds"
_ALLOCATION = "scheduler_dispatch_latency_seconds"


@dataclass
class Readings:
    """Counters of all instances together."""

    jobs: int = 0
    """Jobs that ended."""
    operations: Counter[str] = field(default_factory=Counter)
    allocations: Counter[float] = field(default_factory=Counter)
    """How many took at most so many seconds."""

    def since(self, earlier: Readings) -> Readings:
        """What was counted since an earlier reading."""
        operations, allocations = self.operations.copy(), self.allocations.copy()
        operations.subtract(earlier.operations)
        allocations.subtract(earlier.allocations)
        return Readings(self.jobs - earlier.jobs, operations, allocations)

    def operations_a_job(self, idle: Readings, idle_times: float) -> dict[str, float]:
        """Each operation's count for a job, without what would have been done without jobs."""
        return {
            name: round(max(0.0, count - idle.operations[name] * idle_times) / max(1, self.jobs), 2)
            for name, count in self.operations.most_common()
        }

    def p99_allocation_ms(self) -> float:
        """The time within which 99 of 100 jobs had their node, as the histogram has it."""
        wanted = 0.99 * max(self.allocations.values(), default=0)
        below_seconds, below = 0.0, 0
        for seconds, count in sorted(self.allocations.items()):
            if count >= wanted and count > below:
                share = (wanted - below) / (count - below)
                return (below_seconds + share * (seconds - below_seconds)) * 1000
            below_seconds, below = seconds, count
        return 0.0


def read(instances: Iterable[Address]) -> Readings:
    """The counters as they are now."""
    found = Readings()
    for instance in instances:
        with urlopen(f"http://127.0.0.1:{instance.port}/metrics") as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _JOBS:
                    found.jobs += int(sample.value)
                elif sample.name == f"{_OPERATIONS}_count":
                    found.operations[sample.labels["op"]] += int(sample.value)
                elif sample.name == f"{_ALLOCATION}_bucket":
                    found.allocations[float(sample.labels["le"])] += int(sample.value)
    return found


def used_bytes(redis: Address) -> int:
    """What Redis holds."""
    with Redis(port=redis.port) as client:
        info = client.info("memory")
    assert isinstance(info, dict)
    return int(info["used_memory_dataset"])
