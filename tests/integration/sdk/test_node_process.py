"""A node as a process of its own, and how signals end it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from tests.integration.sdk.sockets import program, scheduling

from dragoman.live.protocol import JobResult, JobStarted, NodeDrain, NodeHeartbeat

SLOW_NODE = Path(__file__).with_name("slow_node.py")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_lets_the_running_job_finish_and_turns_new_ones_away(
    number: signal.Signals, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with (
            scheduling() as (scheduler, url),
            program(SLOW_NODE, url, tmp_path / "done") as node,
        ):
            await scheduler.hears(NodeHeartbeat)
            scheduler.assign("a")
            await scheduler.hears(JobStarted)
            node.send_signal(number)
            [drain] = await scheduler.hears(NodeDrain)
            assert drain.reason == number.name
            scheduler.assign("b")
            [refused] = await scheduler.hears(JobResult)
            assert refused.error is not None
            assert (refused.attempt_id, refused.error.code) == ("b", "NODE_UNAVAILABLE")
            (tmp_path / "done").touch()
            results = await scheduler.hears(JobResult, 2)
            assert results[1].text_translated == "done"
            assert await node.wait() == 0

    asyncio.run(scenario())


def test_an_idle_node_leaves_at_the_first_signal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            scheduling() as (scheduler, url),
            program(SLOW_NODE, url, tmp_path / "x") as node,
        ):
            await scheduler.hears(NodeHeartbeat)
            node.send_signal(signal.SIGINT)
            assert await node.wait() == 0
            assert len(scheduler.all(NodeDrain)) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_second_signal_leaves_at_once(tmp_path: Path, kind: str) -> None:
    async def scenario() -> None:
        async with (
            scheduling() as (scheduler, url),
            program(SLOW_NODE, url, tmp_path / "never", kind) as node,
        ):
            await scheduler.hears(NodeHeartbeat)
            scheduler.assign("a")
            await scheduler.hears(JobStarted)
            node.send_signal(signal.SIGTERM)
            await scheduler.hears(NodeDrain)
            node.send_signal(signal.SIGTERM)
            assert await node.wait() == 3

    asyncio.run(scenario())
