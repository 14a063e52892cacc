"""A node or clients of the SDK that can be looked into: `python -m benchmarks.profiling.callers`.

It takes `node` or `client`, the scheduler's URL, and the file for what is found; see `served` for
the signals. SIGHUP prints how many jobs there were so far, and the CPU seconds of the process.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import uvloop

from benchmarks.full_job.load import TEXT
from benchmarks.profiling.served import Looker
from dragoman.sdk import Answer, Job, Node, SessionClient

SESSIONS = 20
SLOTS = 64


class Program:
    """Counts the jobs of this process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._jobs = 0
        signal.signal(signal.SIGHUP, self._report)

    def node(self) -> None:
        """Answer at once, as a node with a very quick model would."""
        # It prints that it is ready by itself.
        Node(self._url, nmt=["en", "es"], work=self.translate, slots=SLOTS).run()

    async def translate(self, job: Job) -> Answer:
        self.count_job()
        return Answer(text_translated=job.text)

    async def clients(self) -> None:
        """Say something, wait for the result, and say the next."""
        async with asyncio.TaskGroup() as group:
            for _ in range(SESSIONS):
                group.create_task(self._client())

    async def _client(self) -> None:
        async with SessionClient(self._url, src_lang="en", tgt_lang="es") as session:
            await session.say(TEXT)
            await session.next_result()
            print("ready", flush=True)
            while True:
                await session.say(TEXT)
                await session.next_result()
                self.count_job()

    def count_job(self) -> None:
        self._jobs += 1

    def _report(self, number: int, frame: object) -> None:
        print(self._jobs, time.process_time(), flush=True)


def main() -> None:
    role, url, out = sys.argv[1:]
    Looker(Path(out)).install()
    program = Program(url)
    if role == "node":
        program.node()
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(program.clients())


if __name__ == "__main__":
    main()
