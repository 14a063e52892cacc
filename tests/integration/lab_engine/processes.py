"""Labs in processes of their own, to be killed, paused and started again."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType

from tests.integration.lab_engine.laboratory import QUICK, laboratory

from dragoman.observability import Metrics

# The modules are imported once, by a server that the processes are forked from.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.integration.lab_engine.laboratory"])


class LabProcess:
    """A scheduler, a worker, or both, at work on a database until it is stopped."""

    def __init__(
        self, url: str, *, schedules: bool = True, works: bool = True, metrics: str = ""
    ) -> None:
        self._process: BaseProcess = _CONTEXT.Process(
            target=_live, args=(url, schedules, works, metrics), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self._process.join()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> LabProcess:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self._process.close()


def _live(url: str, schedules: bool, works: bool, metrics: str) -> None:
    asyncio.run(_work(url, schedules, works, metrics))


async def _work(url: str, schedules: bool, works: bool, metrics: str) -> None:
    async with laboratory(url, QUICK, schedules=schedules, works=works) as at:
        while True:
            await asyncio.sleep(0.02)
            if metrics:
                _tell(Path(metrics), at.metrics)


def _tell(path: Path, metrics: Metrics) -> None:
    path.write_bytes(metrics.exposition())
