"""A node that writes down what it does: python recorded_node.py URL ID LANGUAGES SLOTS LOG GATE.

Each job takes until the file GATE is there. LOG gets one line for each event, written at once, so
that it also tells what a killed process had done.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from dragoman.live.protocol import ResourceUsage
from dragoman.sdk import Answer, Event, Job, Node

url, node_id, languages, slots, log_path, gate_path = sys.argv[1:]
log = Path(log_path).open("ab", buffering=0)  # noqa: SIM115 - open as long as the process lives
gate = Path(gate_path)


def write_down(event: Event) -> None:
    line = {"event": type(event).__name__, **msgspec.structs.asdict(event)}
    log.write(msgspec.json.encode(line) + b"\n")


async def work(job: Job) -> Answer:
    while not gate.exists():  # noqa: ASYNC110, ASYNC240 - the file comes from another process
        await asyncio.sleep(0.01)
    return Answer(text_translated=f"{node_id} {job.attempt_id}")


tags = languages.split(",")
left_in_peace = Node(
    url,
    work=work,
    asr=tags,
    nmt=tags,
    tts=tags,
    slots=int(slots),
    node_id=node_id,
    on_event=write_down,
    # A busy machine must not leave the node out.
    usage=lambda: ResourceUsage(cpu_percent=1, mem_percent=1),
).run()
sys.exit(0 if left_in_peace else 3)
