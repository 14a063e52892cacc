"""What a node tells of its graphics processors; NVML lies outside, and is played here."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dragoman.live.protocol import Gpu
from dragoman.sdk.node.graphics import Graphics
from dragoman.sdk.node.machine import MachineUsage, this_machine

GB = 1024**3


class NVMLError(Exception):
    pass


def nvml(*gpus: tuple[str | bytes, int, int, int], driver: bool = True) -> ModuleType:
    """The bindings on a machine with these processors: name, busy percent, bytes used, bytes."""
    found: Any = ModuleType("pynvml")
    found.NVMLError = NVMLError

    def init() -> None:
        if not driver:
            raise NVMLError("NVML Shared Library Not Found")

    def busy(number: int) -> SimpleNamespace:
        if gpus[number][1] < 0:
            raise NVMLError("Not Supported")
        return SimpleNamespace(gpu=gpus[number][1])

    found.nvmlInit = init
    found.nvmlDeviceGetCount = lambda: len(gpus)
    found.nvmlDeviceGetHandleByIndex = lambda number: number
    found.nvmlDeviceGetName = lambda number: gpus[number][0]
    found.nvmlDeviceGetUtilizationRates = busy
    found.nvmlDeviceGetMemoryInfo = lambda number: SimpleNamespace(
        used=gpus[number][2], total=gpus[number][3]
    )
    return found  # type: ignore[no-any-return]


def test_heartbeats_and_the_registration_carry_what_nvml_says() -> None:
    graphics = Graphics(nvml(("A", 90, 6 * GB, 8 * GB), (b"B", 30, 0, 24 * GB)))
    usage = MachineUsage(graphics=graphics)()
    assert (usage.gpu_percent, usage.gpu_mem_percent) == (60.0, 18.8)
    assert this_machine(graphics=graphics).gpus == (Gpu("A", 8.0), Gpu("B", 24.0))


@pytest.mark.parametrize("bindings", [nvml(driver=False), nvml()])
def test_without_a_driver_or_a_processor_the_figures_are_absent(bindings: ModuleType) -> None:
    graphics = Graphics(bindings)
    assert graphics.usage() == (None, None)
    assert graphics.gpus() == ()


def test_a_processor_that_does_not_tell_is_left_out_and_the_others_are_not() -> None:
    graphics = Graphics(nvml(("silent", -1, GB, GB), ("B", 40, GB, 4 * GB)))
    assert graphics.usage() == (40.0, 25.0)


def test_this_machine_can_be_read_whatever_it_has() -> None:
    Graphics().usage()
