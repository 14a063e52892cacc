"""Laws of what a node lists, runs and answers, whatever happens to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sdk.scene import Scene, play

from dragoman.ids import AttemptId
from dragoman.live.gateway import Delay, fixed, instant, uniform
from dragoman.live.protocol import (
    Command,
    JobAck,
    JobResult,
    Message,
    NodeControl,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    SchedulerToNode,
)
from dragoman.sdk import Accepted, NodeConnect, NodeLink

Step = tuple[str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["assign", "assign", "cancel", "finish", "finish", "report", "cut", "wait"]
        ),
        st.integers(0, 40),
    ),
    max_size=40,
)
DELAYS: st.SearchStrategy[Delay] = st.sampled_from([instant, fixed(0.01), uniform(0.0, 0.3)])


class RecordedLink:
    """A link that writes down what was sent, once it was."""

    def __init__(self, link: NodeLink, transcript: list[Message]) -> None:
        self._link = link
        self._transcript = transcript

    async def send(self, message: Message) -> None:
        await self._link.send(message)
        self._transcript.append(message)

    async def receive(self) -> SchedulerToNode:
        message = await self._link.receive()
        if isinstance(message, NodeRegisterAck):
            self._transcript.append(message)
        return message

    async def close(self) -> None:
        await self._link.close()


def recorded(connect: NodeConnect, transcripts: list[list[Message]]) -> NodeConnect:
    async def connect_and_record() -> NodeLink:
        transcripts.append([])
        return RecordedLink(await connect(), transcripts[-1])

    return connect_and_record


async def perform(scene: Scene, step: Step, assigned: list[str], cancels: Counter[str]) -> None:
    """Do one step, as far as it makes sense at the moment."""
    action, number = step
    connection = scene.scheduler.connections[-1] if scene.scheduler.connections else None
    is_open = connection is not None and connection.end is None
    match action:
        case "assign" if is_open:
            assigned.append(f"a{len(assigned)}")
            scene.scheduler.assign(assigned[-1])
        case "cancel" if is_open and assigned:
            cancels[assigned[number % len(assigned)]] += 1
            scene.scheduler.cancel(assigned[number % len(assigned)])
        case "finish" if assigned:
            scene.jobs.finish(assigned[number % len(assigned)])
        case "report" if is_open:
            scene.scheduler.send(NodeControl(Command.REPORT))
        case "cut" if scene.network.links:
            scene.link.cut()
        case "wait":
            await asyncio.sleep(number / 20)


def check_lists(transcript: list[Message]) -> None:
    """On one connection: listed exactly from (just before) the ack until the result."""
    open_attempts: set[AttemptId] = set()
    announced_early: set[AttemptId] = set()
    for message in transcript:
        match message:
            case NodeRegister(running=running):
                open_attempts = {job.attempt_id for job in running}
            case JobAck(attempt_id=attempt):
                open_attempts.add(attempt)
                announced_early.discard(attempt)
            case JobResult(attempt_id=attempt):
                open_attempts.discard(attempt)
                assert attempt not in announced_early, "a result of a listed job without its ack"
            case NodeHeartbeat(running=running):
                listed = {job.attempt_id for job in running}
                assert open_attempts <= listed, "a job that runs is not listed"
                # Whatever else is listed must be about to be acknowledged.
                assert announced_early <= listed, "a job was listed, then not, then not answered"
                announced_early = listed - open_attempts


@given(steps=STEPS, delay=DELAYS, slots=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_every_job_is_listed_while_it_runs_and_answered_once_whatever_happens(
    steps: list[Step], delay: Delay, slots: int, seed: int
) -> None:
    transcripts: list[list[Message]] = []
    assigned: list[str] = []
    cancels: Counter[str] = Counter()
    chance = Random(seed)

    async def script(scene: Scene) -> None:
        scene.node._connect = recorded(scene.node._connect, transcripts)
        scene.scheduler.unwanted = lambda register: tuple(
            job for job in register.running if chance.random() < 0.3
        )
        await scene.scheduler.hears(NodeHeartbeat)
        for step in steps:
            await perform(scene, step, assigned, cancels)
        for name in assigned:
            scene.jobs.finish(name)
        await asyncio.sleep(60)
        assert scene.node.running == ()

    scene = play(script, seed=seed, delay=delay, slots=slots)
    for transcript in transcripts:
        check_lists(transcript)
    assert scene.jobs.most_at_once <= scene.node.high_water <= slots
    results = [m for transcript in transcripts for m in transcript if isinstance(m, JobResult)]
    accepted = [event.attempt_id for event in scene.events if isinstance(event, Accepted)]
    assert len(set(accepted)) == len(accepted), "a job ran twice"
    for attempt in accepted:
        own = [result for result in results if result.attempt_id == attempt]
        assert own, "a job was never answered"
        # A cancel that comes when the attempt is gone is answered too.
        assert len(own) <= 1 + cancels[attempt]
        assert all(r.error and r.error.code == "JOB_CANCELLED" for r in own[1:])
