"""What this machine is, and how busy it is, as Linux tells it in /proc and NVIDIA by NVML."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.live.protocol import Hardware, ResourceUsage
from dragoman.sdk.node.graphics import Graphics

_PROC = Path("/proc")
_BYTES_PER_GB = 1024**3


_SHORTEST_TICKS = 100
"""Of all processors together: over less time than that a percentage says nothing."""


class MachineUsage:
    """Reads how busy the machine was since the last reading. Unknown counts as idle.

    The first reading of a process is unknown: it would span the milliseconds in which the node
    started. A reading that follows another at once repeats it.
    """

    def __init__(self, proc: Path = _PROC, graphics: Graphics | None = None) -> None:
        self._proc = proc
        self._graphics = Graphics() if graphics is None else graphics
        self._last: tuple[int, int] | None = None
        self._cpu_percent = 0.0

    def __call__(self) -> ResourceUsage:
        now = self._times()
        if self._last is None:
            self._last = now
        busy, total = now[0] - self._last[0], now[1] - self._last[1]
        if total >= _SHORTEST_TICKS:
            self._last = now
            self._cpu_percent = _percent(busy, total)
        gpu_percent, gpu_mem_percent = self._graphics.usage()
        return ResourceUsage(
            cpu_percent=self._cpu_percent,
            mem_percent=memory_percent(_read(self._proc)),
            gpu_percent=gpu_percent,
            gpu_mem_percent=gpu_mem_percent,
        )

    def _times(self) -> tuple[int, int]:
        try:
            return cpu_times((self._proc / "stat").read_text())
        except (OSError, ValueError, IndexError):
            return 0, 0


def cpu_times(stat: str) -> tuple[int, int]:
    """Busy and total ticks of all processors since the machine started."""
    fields = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    waiting = fields[3] + fields[4]
    return sum(fields) - waiting, sum(fields)


def memory_percent(meminfo: dict[str, int]) -> float:
    """How much of the memory is in use; what the kernel would give back at once is not."""
    total = meminfo.get("MemTotal", 0)
    return _percent(total - meminfo.get("MemAvailable", total), total)


def this_machine(proc: Path = _PROC, graphics: Graphics | None = None) -> Hardware:
    """The processors and the memory of this machine."""
    gpus = (Graphics() if graphics is None else graphics).gpus()
    memory_gb = _read(proc).get("MemTotal", 0) * 1024 / _BYTES_PER_GB
    return Hardware(cpu_cores=os.cpu_count() or 1, memory_gb=round(memory_gb, 1), gpus=gpus)


def _read(proc: Path) -> dict[str, int]:
    """/proc/meminfo, in kB; empty where there is none."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        return {name: int(rest.split()[0]) for name, _, rest in (li.partition(":") for li in lines)}
    except (OSError, ValueError, IndexError):
        return {}


def _percent(part: float, whole: float) -> float:
    return round(min(100.0, max(0.0, 100.0 * part / whole)), 1) if whole > 0 else 0.0
