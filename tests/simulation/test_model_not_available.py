"""Nodes that lack a model: they are left out for a while, and no others are."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from tests.simulation.world import World, play

from dragoman.ids import NodeId
from dragoman.live.protocol import (
    Device,
    ModelNotAvailable,
    Outcome,
    Pipeline,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.testing import SERVICES, JobEnding, SimulatedNode, seconds

TTL_SECONDS = 60
SPEECH_ONLY = Pipeline(use_nmt=False, use_tts=True)


async def report(node: SimulatedNode, service_id: str = "nmt-1", **fields: Any) -> None:
    await node.say(ModelNotAvailable(service_id, "not loaded", **fields))


def marks(world: World, name: str) -> set[str]:
    return {mark.service_id for mark in world.plane.registry.node(NodeId(name)).marks}


class FollowUps(logging.Handler):
    """When each service and version was followed up, in virtual time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.times: defaultdict[tuple[str, str | None], list[float]] = defaultdict(list)

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "model_not_available":
            fields = record.__dict__["fields"]
            key = (fields["service_id"], fields["version"])
            self.times[key].append(self._world.clock.monotonic())


@contextmanager
def follow_ups(world: World) -> Iterator[FollowUps]:
    handler = FollowUps(world)
    logger = logging.getLogger("dragoman.fleet")
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)


def test_a_marked_node_is_refused_with_its_reason_until_the_mark_ends() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        await report(node)
        await world.until(lambda: marks(world, "n") == {"nmt-1"})
        refused = await world.submit("r1")
        assert refused.refusal is not None
        assert refused.refusal.code == "MODEL_NOT_AVAILABLE"
        assert refused.refusal.details["reasons"] == {"model_unavailable": 1}

        spoken = await world.submit("r2", src_lang="en", pipeline=SPEECH_ONLY)
        assert (await spoken.end()).outcome is Outcome.SUCCESS, "its other services are used"

        await world.pass_time(TTL_SECONDS)
        assert marks(world, "n") == set()
        again = await world.submit("r3")
        assert (await again.end()).outcome is Outcome.SUCCESS

    play(story)


def test_the_job_that_found_the_model_missing_is_not_given_to_the_node_again() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.MODEL_MISSING)
        job = await world.submit("r")
        await job.end()
        assert job.code == "MODEL_NOT_AVAILABLE"
        assert len(node.assigned) == 1

    play(story)


def test_a_reason_as_long_as_a_frame_is_not_kept_whole() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        job = await world.submit("r")
        await world.until(lambda: len(node.assigned) == 1)
        own = node.assigned[0]
        await node.say(
            ModelNotAvailable("nmt-1", "x" * 100_000, job_id=own.job_id, attempt_id=own.attempt_id)
        )
        record = await job.end()
        assert record.error is not None
        assert len(record.attempts[0].error.message if record.attempts[0].error else "") < 300

    play(story)


def test_a_job_does_not_wait_for_the_reports_that_came_before_it() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        for number in range(10_000):
            sender = NodeId(f"bad{number % 50}")
            world.plane.feedback.report(sender, ModelNotAvailable("nmt-1", "not loaded"))
        job = await world.submit("r")
        assert world.plane.feedback._queue.qsize() == 10_000, "none was handled before the job"
        assert world.plane.dispatcher.counts()["attempts"] == 1
        assert (await job.end()).outcome is Outcome.SUCCESS

    play(story)


def test_a_job_that_waits_is_carried_when_the_mark_ends() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        await report(node)
        await world.until(lambda: bool(marks(world, "n")))
        marked_at = world.clock.monotonic()
        job = await world.submit("r", may_wait=True)
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert job.ended_at is not None
        assert TTL_SECONDS <= job.ended_at - marked_at + 0.1 <= TTL_SECONDS + 2

    play(
        story,
        scheduler__job_timeout__pending_seconds=100,
        scheduler__job_timeout__total_seconds=200,
    )


def test_only_the_reports_own_attempt_moves_to_another_node() -> None:
    async def story(world: World) -> None:
        bad = await world.node("bad", slots=2, service=seconds(5))
        first = await world.submit("r1")
        second = await world.submit("r2")
        await world.until(lambda: len(bad.assigned) == 2)
        await world.node("good")
        own = bad.assigned[0]
        await report(bad, job_id=own.job_id, attempt_id=own.attempt_id)
        moved, stayed = (first, second) if own.job_id == first.job_id else (second, first)
        assert [past.node_id for past in (await moved.end()).attempts] == ["bad", "good"]
        assert [past.node_id for past in (await stayed.end()).attempts] == ["bad"]
        assert stayed.outcome is Outcome.SUCCESS

    play(story)


def test_a_node_with_a_second_service_of_the_kind_goes_on() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        spare = Service("nmt-2", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING)
        await node.beat(services=(*SERVICES, spare))
        await report(node)
        await world.until(lambda: marks(world, "n") == {"nmt-1"})
        assert (await (await world.submit("r1")).end()).outcome is Outcome.SUCCESS
        await report(node, "nmt-2")
        await world.until(lambda: marks(world, "n") == {"nmt-1", "nmt-2"})
        refused = await world.submit("r2")
        assert refused.refusal is not None
        assert refused.refusal.code == "MODEL_NOT_AVAILABLE"

    play(story)


def test_a_mark_outlives_a_reconnect() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        await report(node)
        await world.until(lambda: bool(marks(world, "n")))
        node.cut()
        await world.pass_time(1)
        await node.connect()
        await world.pass_time(1)
        refused = await world.submit("r")
        assert refused.refusal is not None
        assert refused.refusal.code == "MODEL_NOT_AVAILABLE"
        await world.pass_time(TTL_SECONDS)
        assert (await (await world.submit("r2")).end()).outcome is Outcome.SUCCESS

    play(story)


def test_twenty_nodes_that_lack_a_model_are_all_marked_and_followed_up_once() -> None:
    async def story(world: World) -> None:
        nodes = [await world.node(f"n{number}") for number in range(20)]
        with follow_ups(world) as followed:
            for node in nodes:
                await report(node, version="1")
            await world.pass_time(1)
        assert all(marks(world, node.node_id) == {"nmt-1"} for node in nodes)
        assert {key: len(times) for key, times in followed.times.items()} == {("nmt-1", "1"): 1}
        refused = await world.submit("r")
        assert refused.refusal is not None
        assert refused.refusal.details["reasons"] == {"model_unavailable": 20}

    play(story)


def test_a_storm_of_reports_harms_no_other_node() -> None:
    """10,000 reports of 50 nodes within 20 s, while five nodes that have the model do the work."""

    async def story(world: World) -> None:
        bad = [await world.node(f"bad{number}") for number in range(50)]
        good = [await world.node(f"good{number}", slots=10) for number in range(5)]
        for node in bad:
            await report(node)
        await world.pass_time(1)
        versions = ("1", "2", None)
        jobs = []
        with follow_ups(world) as followed:
            for step in range(200):
                for node in bad:
                    await report(node, version=world.random.choice(versions))
                jobs.append(await world.submit(f"r{step}"))
                await world.pass_time(0.1)
        stormed_until = world.clock.monotonic()

        for job in jobs:
            await job.end()
        assert {job.outcome for job in jobs} == {Outcome.SUCCESS}
        assert sum(len(node.assigned) for node in good) == len(jobs)
        assert not any(node.assigned for node in bad)

        for times in followed.times.values():
            assert min(later - sooner for sooner, later in pairwise(times)) >= 5
        view = world.plane.feedback.view()
        assert view.received == 10_050
        assert view.marked + view.rate_limited == view.received
        assert max(entry.count for entry in view.marked_by_node_top) <= 3 * 30
        feedback = world.plane.feedback
        assert feedback._queue.qsize() == 0
        assert (len(feedback._marks), len(feedback._limit)) == (50, 50)
        assert len(feedback._debounce) <= 3

        refused_until = stormed_until + TTL_SECONDS - 11
        while world.clock.monotonic() < refused_until:
            await (await world.submit(f"later{world.clock.monotonic()}")).end()
            await world.pass_time(5)
        assert not any(node.assigned for node in bad), "marked until the end of the mark"
        await world.pass_time(12)
        assert len(feedback._marks) == 0
        for step in range(50):
            await (await world.submit(f"after{step}")).end()
        assert any(node.assigned for node in bad), "they get work again"

    play(story, seed=7)
