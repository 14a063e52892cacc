"""The closed loop that every peer's producer runs, and what it reports."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.processes import cpu_seconds, family

IN_FLIGHT = 100


@dataclass
class Window:
    """The time in which jobs and CPU are counted."""

    warm_up_seconds: float
    seconds: float
    broker_pid: int
    worker_pid: int
    jobs: int = 0
    over: bool = False

    def __post_init__(self) -> None:
        self._opens_at = time.monotonic() + self.warm_up_seconds
        self._opened_at: float | None = None
        self._before: tuple[float, float, float] = (0, 0, 0)

    def job_done(self) -> None:
        """Count a job; the first after the warm-up opens the window, a later one closes it."""
        now = time.monotonic()
        if self._opened_at is None:
            if now >= self._opens_at:
                self._opened_at, self._before = now, self._cpu()
            return
        if self.over:
            return
        self.jobs += 1
        if now - self._opened_at >= self.seconds:
            self.over = True
            self._report(now - self._opened_at)

    def _cpu(self) -> tuple[float, float, float]:
        return (
            cpu_seconds(self.broker_pid),
            time.process_time(),
            cpu_seconds(*family(self.worker_pid)),
        )

    def _report(self, seconds: float) -> None:
        broker, producer, worker = (
            after - before for after, before in zip(self._cpu(), self._before, strict=True)
        )
        json.dump(
            {
                "jobs": self.jobs,
                "seconds": seconds,
                "broker_cpu_seconds": broker,
                "producer_cpu_seconds": producer,
                "worker_cpu_seconds": worker,
            },
            sys.stdout,
        )


def window_from_arguments() -> Window:
    """The window that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up-seconds", type=float, required=True)
    parser.add_argument("--broker-pid", type=int, required=True)
    parser.add_argument("--worker-pid", type=int, required=True)
    asked = parser.parse_args()
    return Window(asked.warm_up_seconds, asked.seconds, asked.broker_pid, asked.worker_pid)


async def produce(job: Callable[[], Awaitable[object]]) -> None:
    """Keep so many jobs in flight, each awaited to its result, until the window is over."""
    await job()  # the worker may still be starting
    window = window_from_arguments()

    async def one_after_another() -> None:
        while not window.over:
            await job()
            window.job_done()

    await asyncio.gather(*(one_after_another() for _ in range(IN_FLIGHT)))


def produce_in_batches(batch: Callable[[int], list[Callable[[], object]]]) -> None:
    """The same without asyncio: send so many, then fetch the result of each."""
    for fetch in batch(1):
        fetch()
    window = window_from_arguments()
    while not window.over:
        for fetch in batch(IN_FLIGHT):
            fetch()
            window.job_done()
