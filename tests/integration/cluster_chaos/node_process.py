"""Many nodes in one process: python -m tests.integration.cluster_chaos.node_process ORDER.

The order is JSON. Each node translates in a moment, fails now and then, and writes everything down.
SIGTERM lets all of them leave in peace.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from random import Random

import msgspec
import uvloop
from tests.integration.cluster_chaos.doors import AnyDoor
from tests.integration.cluster_chaos.records import (
    Diary,
    Gave,
    GaveUp,
    JobSeen,
    NodeBegan,
    NodeJoined,
    NodeParted,
    Took,
    TurnedAway,
)
from tests.integration.cluster_chaos.stalls import watch_own_loop

from dragoman.errors import DragomanError
from dragoman.live.protocol import ResourceUsage
from dragoman.sdk import (
    Accepted,
    Answer,
    Disconnected,
    Ended,
    Event,
    Job,
    JobFailed,
    Node,
    Refused,
    Registered,
)
from dragoman.sdk.transport import NODE_DOOR

LANGUAGES = ("en", "es", "de")
_LONGEST_SECONDS = 0.6


class NodesOrder(msgspec.Struct, frozen=True):
    """Which nodes to be."""

    urls: list[str]
    node_ids: list[str]
    slots: int
    seed: int
    diary: str
    fails: float = 0.02
    """The share of attempts that fail on purpose."""


def translated(text: str, tgt_lang: str) -> str:
    """What a text becomes; its hearer can tell whose result it is."""
    return f"{text} in {tgt_lang}"


class WrittenNode:
    """A node that writes down what it does."""

    def __init__(self, order: NodesOrder, node_id: str, diary: Diary) -> None:
        self._random = Random(f"{order.seed} {node_id}")
        self._diary = diary
        self._node_id = node_id
        self._fails = order.fails
        self.node = Node(
            AnyDoor(order.urls, NODE_DOOR, self._random),
            work=self._work,
            asr=LANGUAGES,
            nmt=LANGUAGES,
            tts=LANGUAGES,
            slots=order.slots,
            node_id=node_id,
            on_event=self._write_down,
            # A busy machine must not leave the node out.
            usage=lambda: ResourceUsage(cpu_percent=1, mem_percent=1),
            random=self._random,
        )
        diary.write(NodeBegan(node_id=node_id, slots=order.slots))

    async def serve(self) -> None:
        try:
            await self.node.serve()
        except DragomanError as error:
            self._diary.write(GaveUp(who=self._node_id, why=error.message))

    async def _work(self, job: Job) -> Answer:
        self._diary.write(
            JobSeen(
                node_id=self._node_id,
                job_id=job.job_id,
                text=job.text or "",
                session_id=job.session_id,
                index=job.utterance_index,
            )
        )
        await asyncio.sleep(self._random.random() * _LONGEST_SECONDS)
        if self._random.random() < self._fails:
            raise JobFailed("INTERNAL_ERROR", "on purpose")
        return Answer(text_translated=translated(job.text or "", job.tgt_lang))

    def _write_down(self, event: Event) -> None:
        node_id, write = self._node_id, self._diary.write
        match event:
            case Registered(instance_id=instance_id):
                write(NodeJoined(node_id=node_id, instance_id=instance_id))
            case Disconnected(code=code):
                write(NodeParted(node_id=node_id, code=code))
            case Accepted(job_id=job_id, attempt_id=attempt_id):
                write(Took(node_id=node_id, job_id=job_id, attempt_id=attempt_id))
            case Refused(job_id=job_id, attempt_id=attempt_id, code=code):
                write(TurnedAway(node_id=node_id, job_id=job_id, attempt_id=attempt_id, code=code))
            case Ended(job_id=job_id, attempt_id=attempt_id, code=code):
                write(Gave(node_id=node_id, job_id=job_id, attempt_id=attempt_id, code=code))


async def serve_all(order: NodesOrder) -> None:
    diary = Diary(Path(order.diary))
    nodes = [WrittenNode(order, node_id, diary) for node_id in order.node_ids]

    def leave() -> None:
        for written in nodes:
            written.node.leave()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)
    watching = asyncio.create_task(watch_own_loop(Path(order.diary).stem, diary))
    await asyncio.gather(*(written.serve() for written in nodes))
    watching.cancel()
    diary.close()


if __name__ == "__main__":
    uvloop.run(serve_all(msgspec.json.decode(sys.argv[1], type=NodesOrder)))
