"""Ray: calls of an actor; there is no broker, its own processes stand in for it."""

from __future__ import annotations

import os
import time

import ray  # type: ignore[import-not-found]

from benchmarks.full_job.peers.measuring import IN_FLIGHT, Window, window_from_arguments
from benchmarks.processes import cpu_seconds, family


class Noop:
    """Nothing, in a process of its own."""

    def pid(self) -> int:
        return os.getpid()

    def work(self) -> None:
        """Nothing."""


class RayWindow(Window):
    """The broker is every process that Ray started, but for the actor's."""

    def _cpu(self) -> tuple[float, float, float]:
        others = set(family(os.getpid())) - {os.getpid(), self.worker_pid}
        return cpu_seconds(*others), time.process_time(), cpu_seconds(self.worker_pid)


def main() -> None:
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    actor = ray.remote(Noop).remote()
    worker_pid = ray.get(actor.pid.remote())
    asked = window_from_arguments()
    window = RayWindow(asked.warm_up_seconds, asked.seconds, asked.broker_pid, worker_pid)
    while not window.over:
        for call in [actor.work.remote() for _ in range(IN_FLIGHT)]:
            ray.get(call)
            window.job_done()
    ray.shutdown()


if __name__ == "__main__":
    main()
