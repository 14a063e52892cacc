"""A node over a real socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.integration.sdk.sockets import free_port, scheduling
from tests.unit.sdk.scheduler import NODE_KEY

from dragoman.errors import Unauthorized
from dragoman.live.gateway import CloseCode
from dragoman.live.protocol import (
    JobPartial,
    JobResult,
    JobStarted,
    NodeHeartbeat,
    NodeRegister,
    SubProtocol,
)
from dragoman.sdk import Answer, Disconnected, Event, Job, Node, Registered, WebSocketConnect


async def shout(job: Job) -> Answer:
    return Answer(text_translated=(job.text or "").upper(), tts_audio=bytes(range(256)))


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(node.serve())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Unauthorized):
            await task


def offer(**options: Any) -> dict[str, Any]:
    return {"work": shout, "nmt": ["en", "es"], "slots": 2} | options


@pytest.mark.parametrize("sub", SubProtocol)
def test_a_job_goes_there_and_back_in_both_sub_protocols(sub: SubProtocol) -> None:
    async def scenario() -> None:
        async with scheduling() as (scheduler, url):
            node = Node(WebSocketConnect(url, sub=sub), **offer())
            async with serving(node):
                await scheduler.hears(NodeHeartbeat)
                assert scheduler.connections[0].sub is sub
                scheduler.assign("a", text="héllo")
                [result] = await scheduler.hears(JobResult)
                assert result.text_translated == "HÉLLO"
                assert result.tts_audio == bytes(range(256))

    asyncio.run(scenario())


def test_a_key_is_shown_and_without_it_the_node_stops() -> None:
    async def scenario() -> None:
        async with scheduling(keys_required=True) as (scheduler, url):
            async with serving(Node(url, token=NODE_KEY.reveal(), **offer())):
                await scheduler.hears(NodeHeartbeat)
            async with serving(Node(url, **offer())) as stopped:
                with pytest.raises(Unauthorized, match="dragoman keys create --role node"):
                    await stopped

    asyncio.run(scenario())


def test_a_node_comes_back_after_its_scheduler_restarted() -> None:
    async def scenario() -> None:
        port = free_port()
        events: list[Event] = []
        node = Node(f"ws://127.0.0.1:{port}", on_event=events.append, **offer())
        async with serving(node):
            async with scheduling(port=port) as (scheduler, _):
                await scheduler.hears(NodeHeartbeat)
                scheduler.connections[0].close(CloseCode.DRAINING, "restart")
            async with scheduling(port=port) as (scheduler, _):
                [register] = await scheduler.hears(NodeRegister)
                assert register.node_id == "n-chosen"
                await scheduler.hears(NodeHeartbeat)
        assert sum(isinstance(event, Registered) for event in events) == 2
        assert any(isinstance(event, Disconnected) for event in events)

    asyncio.run(scenario())


def test_plain_functions_run_side_by_side_in_threads() -> None:
    both_here = threading.Barrier(2, timeout=30)

    def meet(job: Job) -> Answer:
        job.partial("waiting")
        both_here.wait()
        return Answer(text_translated=threading.current_thread().name)

    async def scenario() -> None:
        async with scheduling() as (scheduler, url), serving(Node(url, **offer(work=meet))):
            await scheduler.hears(NodeHeartbeat)
            scheduler.assign("a")
            scheduler.assign("b")
            results = await scheduler.hears(JobResult, 2)
            assert {result.text_translated for result in results} == {"job a", "job b"}
            assert len(scheduler.all(JobPartial)) == 2

    asyncio.run(scenario())


def test_a_cancelled_plain_function_is_told_and_keeps_its_slot_until_it_returns() -> None:
    returned = threading.Event()

    def patient(job: Job) -> Answer:
        while not job.cancelled:
            returned.wait(0.01)
        returned.set()
        raise ValueError("nobody wants to know")

    async def scenario() -> None:
        async with (
            scheduling() as (scheduler, url),
            serving(Node(url, **offer(work=patient, slots=1))),
        ):
            await scheduler.hears(NodeHeartbeat)
            scheduler.assign("a")
            await scheduler.hears(JobStarted)
            scheduler.cancel("a")
            [result] = await scheduler.hears(JobResult)
            assert returned.is_set()
            assert result.error is not None
            assert result.error.code == "JOB_CANCELLED"

    asyncio.run(scenario())
