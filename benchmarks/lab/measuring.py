"""What one run of an experiment took, told by the process that ran it.

Needs nothing but the standard library, because peers import it in environments of their own.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

CONCURRENCY = 64


@dataclass(frozen=True)
class Measured:
    """One experiment from its start to its end; reading the dataset in is not part of it."""

    items: int
    seconds: float
    cpu_seconds: float
    peak_megabytes: float
    """The most memory that the whole process had at once."""
    details: dict[str, float] = field(default_factory=dict)

    @property
    def items_per_second(self) -> float:
        return self.items / self.seconds

    @property
    def cpu_us_per_item(self) -> float:
        return self.cpu_seconds * 1e6 / self.items

    def tell(self) -> None:
        """Print it for the process that asked; the last line of the output."""
        print(json.dumps(asdict(self)), flush=True)


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._cpu_began = time.process_time()

    def measured(self, items: int, details: dict[str, float] | None = None) -> Measured:
        return Measured(
            items,
            time.monotonic() - self._began,
            time.process_time() - self._cpu_began,
            peak_megabytes(),
            details or {},
        )


def told(output: str) -> Measured:
    """What a process said in the last line of its output."""
    return Measured(**json.loads(output.strip().splitlines()[-1]))


def peak_megabytes() -> float:
    # Not getrusage: its peak also covers the program that started this one.
    shown = Path("/proc/self/status").read_text()
    line = next(line for line in shown.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def items_from_arguments() -> int:
    return int(sys.argv[1])
