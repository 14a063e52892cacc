"""Real nodes for the comparison with a simulation: each job takes a time drawn at random."""

from __future__ import annotations

import asyncio
import sys
from random import Random

from benchmarks.simulation.reality import NODES, SERVICE_MS, SLOTS
from dragoman.sdk import Answer, Job, Node
from dragoman.testing import CALM


async def serve(url: str, seed: int) -> None:
    """Connect the fleet, say that it is ready, and work until stopped."""
    random = Random(f"{seed}/service")

    async def work(job: Job) -> Answer:
        await asyncio.sleep(random.gammavariate(3.0, SERVICE_MS / 3.0) / 1000)
        return Answer(text_translated="done")

    # A busy machine must not leave its nodes out: the simulation's machines are idle.
    nodes = [
        Node(
            url,
            nmt=["en", "es"],
            slots=SLOTS,
            node_id=f"real-{number}",
            work=work,
            usage=lambda: CALM,
        )
        for number in range(NODES)
    ]
    serving = [asyncio.create_task(node.serve()) for node in nodes]
    while not all(node.status == "ready" for node in nodes):  # noqa: ASYNC110  # ten nodes, one flag each
        await asyncio.sleep(0.05)
    print("ready", flush=True)
    await asyncio.gather(*serving)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
