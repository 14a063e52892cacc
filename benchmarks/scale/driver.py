"""Plays a share of the nodes and clients: `python -m benchmarks.scale.driver LOAD`.

It says `ready` once all of them are connected, and begins to speak when it is told to go.
"""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec
import uvloop

from benchmarks.full_job.nodes import open_nodes
from benchmarks.full_job.sessions import Session, connect_sessions
from benchmarks.full_job.tally import Tally
from benchmarks.scale.load import GO, READY, PairFrames, ScaleLoad, ScaleOutcome

AT_ONCE = 8
"""Connections that are made side by side."""


async def drive(load: ScaleLoad, tally: Tally) -> ScaleOutcome:
    sessions = await _connect(load, tally)
    print(READY, flush=True)
    told = await asyncio.to_thread(sys.stdin.readline)
    if told.strip() != GO:
        sys.exit("the benchmark ended before it began")
    for session in sessions:
        session.speak()
    await asyncio.sleep(load.warm_up_seconds)
    jobs, began, cpu = tally.jobs, time.monotonic(), time.process_time()
    await asyncio.sleep(load.seconds)
    return ScaleOutcome(tally.jobs - jobs, time.monotonic() - began, time.process_time() - cpu)


async def _connect(load: ScaleLoad, tally: Tally) -> list[Session]:
    count = len(load.ports)
    frames = [PairFrames(instance, count) for instance in range(count)]
    turns = asyncio.Semaphore(AT_ONCE)

    async def node(number: int) -> None:
        at = number % count
        async with turns:
            await open_nodes(load.ports[at], frames[at], tally, (number,))

    async def session(number: int) -> list[Session]:
        at = number % count
        async with turns:
            return await connect_sessions(load.ports[at], frames[at], tally, (number,), Session)

    await asyncio.gather(*map(node, load.nodes))
    found = await asyncio.gather(*map(session, load.sessions))
    return [each for some in found for each in some]


async def main(load: ScaleLoad) -> ScaleOutcome:
    tally = Tally()
    try:
        outcome = await drive(load, tally)
        problem = tally.problem()
    finally:
        tally.close()
    if problem is not None:
        sys.exit(f"a job or a socket failed: {problem}")
    return outcome


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(main(msgspec.json.decode(sys.argv[1], type=ScaleLoad)))
    print(msgspec.json.encode(found).decode())
