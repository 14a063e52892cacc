"""How a job goes on is told wherever it is watched: at its session, at its node."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import open_roamer
from tests.simulation.speakers import Speaker

from dragoman.live.protocol import AsrPartial, JobPartial, UiEvent, UiEventName
from dragoman.observability import Tracing, read_traceparent
from dragoman.observability.otlp import OtlpExit
from dragoman.testing import JobEnding, SimulatedNode, seconds

THREE = ("a", "b", "c")
TRACE = "0af7651916cd43dd8448eb211c80319c"


async def recognise(node: SimulatedNode, text: str) -> None:
    (running,) = node.working.values()
    await node.say(JobPartial(running.job_id, running.attempt_id, text, False))
    await asyncio.sleep(0.05)


def heard(speaker: Speaker) -> list[str]:
    return [partial.text for partial in speaker.told(AsrPartial)]


@pytest.mark.parametrize("node_at", THREE)
def test_what_is_recognised_follows_a_session_that_moved(node_at: str) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at=node_at, service=seconds(2))
        speaker = await open_roamer(world, "a")
        await speaker.say()
        await world.until(lambda: bool(node.working))
        await recognise(node, "at first")
        await speaker.go_on_at("b")
        await asyncio.sleep(0.1)
        await recognise(node, "and then")
        assert heard(speaker) == ["at first", "and then"]
        await speaker.until_ended(1, seconds=2)
        speaker.check(1)

    play_together(story, names=THREE)


def test_what_is_recognised_reaches_a_session_whose_instance_was_killed() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="c", service=seconds(2))
        speaker = await open_roamer(world, "a")
        await speaker.say()
        await world.until(lambda: bool(node.working))
        speaker.cut()
        await world.kill("a")
        await speaker.go_on_at("b")
        await asyncio.sleep(0.1)
        await recognise(node, "nevertheless")
        assert heard(speaker) == ["nevertheless"]
        await speaker.until_ended(1, seconds=2)

    play_together(story, names=THREE)


@pytest.mark.parametrize("node_at", THREE)
def test_the_steps_of_a_later_attempt_follow_a_session_that_moved(node_at: str) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at=node_at, service=seconds(1), answer=JobEnding.RETRYABLE)
        speaker = await open_roamer(world, "a", ui_events=True)
        await speaker.say()
        await world.until(lambda: bool(node.working))
        await speaker.go_on_at("b")
        before = len(speaker.told(UiEvent))
        node.behaviour.answer = JobEnding.WELL
        await world.until(lambda: len(node.assigned) == 2)
        await speaker.until_ended(1, seconds=2)
        after = {event.event for event in speaker.told(UiEvent)[before:]}
        assert {UiEventName.FAILOVER, UiEventName.NODE_ACCEPTED, UiEventName.RUNNING} <= after

    play_together(story, names=THREE)


def test_a_node_of_another_instance_learns_the_trace_of_its_job() -> None:
    async def story(world: ClusterWorld) -> None:
        nodes = [await world.node("near", at="a"), await world.node("far", at="b")]
        exporter = OtlpExit(SimpleSpanProcessor(InMemorySpanExporter()), "a")
        world["a"].plane.dispatcher._tracing = Tracing(exporter, world.clock)
        for node in nodes:
            await world.submit("a", node.node_id, trace_id=TRACE, preferred_node_id=node.node_id)
            await world.until(lambda node=node: bool(node.assigned))  # type: ignore[misc]
            span = read_traceparent(node.assigned[0].traceparent)
            assert span is not None
            assert f"{span.trace_id:032x}" == TRACE

    play_together(story)


def test_an_instance_counts_the_peers_it_sees() -> None:
    async def story(world: ClusterWorld) -> None:
        def peers() -> float:
            exposed = world["a"].metrics.exposition().decode()
            return float(exposed.split("\nscheduler_cluster_peers ")[1].split()[0])

        await world.until(lambda: peers() == 2, seconds=5)
        await world.kill("b")
        await world.until(lambda: peers() == 1, seconds=10)

    play_together(story, names=THREE)
