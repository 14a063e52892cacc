"""The graphics processors of this machine, through NVML where it is installed.

NVML comes with NVIDIA's driver; the extra `gpu` brings its Python bindings. Without either the
machine has no graphics processors, as far as its node knows.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from dragoman.extras import is_installed
from dragoman.live.protocol import Gpu

_BYTES_PER_GB = 1024**3
_BINDINGS = "pynvml"


class Graphics:
    """Reads what the processors are and how busy they are; a reading that fails is unknown."""

    def __init__(self, nvml: ModuleType | None = None) -> None:
        self._nvml: Any = nvml
        self._handles: list[Any] = []
        if nvml is None and is_installed(_BINDINGS):
            self._nvml = import_module(_BINDINGS)
        if self._nvml is not None:
            self._handles = self._begin()

    def gpus(self) -> tuple[Gpu, ...]:
        """Name and memory of each."""
        found = []
        for handle in self._handles:
            try:
                name = self._nvml.nvmlDeviceGetName(handle)
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
            except self._nvml.NVMLError:
                continue
            # Older bindings answer with bytes.
            shown = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
            found.append(Gpu(name=shown[:256], memory_gb=round(memory.total / _BYTES_PER_GB, 1)))
        return tuple(found)

    def usage(self) -> tuple[float | None, float | None]:
        """How busy they are on average, and how full all their memory is, in percent."""
        busy: list[float] = []
        used = total = 0
        for handle in self._handles:
            try:
                rates = self._nvml.nvmlDeviceGetUtilizationRates(handle)
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
            except self._nvml.NVMLError:
                continue  # such as a processor that does not tell, or has fallen off the bus
            busy.append(float(rates.gpu))
            used += memory.used
            total += memory.total
        if not busy or total <= 0:
            return None, None
        return _percent(sum(busy) / len(busy)), _percent(100.0 * used / total)

    def _begin(self) -> list[Any]:
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            return [self._nvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
        except self._nvml.NVMLError:
            return []  # no driver, or no processor


def _percent(value: float) -> float:
    return round(min(100.0, max(0.0, value)), 1)
