"""What a user's own test can do with the scheduler in memory."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from dragoman.errors import DragomanError, PairUnsupported, SettingsError
from dragoman.sdk import Answer, Job, JobFailed, Node, SessionClient, TranslationResult
from dragoman.testing import (
    JobEnding,
    MemoryCluster,
    MemoryScheduler,
    exponential,
    run_virtual,
    seconds,
    uniform,
    virtual,
)

LANGUAGES = ("en", "es")


async def shout(job: Job) -> Answer:
    await asyncio.sleep(0.5)
    return Answer(text_translated=(job.text or "").upper())


def plainly(job: Job) -> Answer:
    return Answer(text_translated=f"plain {job.text}")


async def said(session: SessionClient, text: str) -> str | None:
    await session.say(text)
    result = await session.next_result()
    assert isinstance(result, TranslationResult), result
    return result.text_translated


@virtual
async def test_a_node_s_function_answers_a_client() -> None:
    async with MemoryScheduler() as scheduler:
        await scheduler.add_node(shout, nmt=LANGUAGES)
        async with scheduler.session(src_lang="en", tgt_lang="es") as session:
            assert await said(session, "hello") == "HELLO"


@virtual
async def test_a_plain_function_runs_without_a_thread() -> None:
    async with MemoryScheduler() as scheduler:
        await scheduler.add_node(plainly, nmt=LANGUAGES)
        async with scheduler.session(src_lang="en", tgt_lang="es") as session:
            assert await said(session, "words") == "plain words"


@virtual
async def test_functions_for_each_service_may_be_plain_too() -> None:
    async with MemoryScheduler() as scheduler:
        await scheduler.add_node(services={"nmt": plainly}, nmt=LANGUAGES)
        async with scheduler.session(src_lang="en", tgt_lang="es") as session:
            assert await said(session, "words") == "plain words"


@virtual
async def test_a_node_and_a_client_of_one_s_own_connect_in_place_of_a_url() -> None:
    async with MemoryScheduler() as scheduler:
        node = Node(scheduler.connect_node, work=shout, nmt=LANGUAGES, clock=scheduler.clock)
        serving = asyncio.create_task(node.serve())
        await scheduler.until(lambda: node.status.value == "ready")
        async with SessionClient(
            scheduler.connect_session, src_lang="en", tgt_lang="es", clock=scheduler.clock
        ) as session:
            assert await said(session, "hello") == "HELLO"
        node.leave()
        await serving


@virtual(seeds=range(3))
async def test_a_job_that_a_node_s_function_fails_goes_to_another_node() -> None:
    tried: list[str] = []

    async def fail(job: Job) -> Answer:
        tried.append(job.attempt_id)
        raise JobFailed("TOO_LOUD", "the fan is on")

    async with MemoryScheduler() as scheduler:
        await scheduler.add_node(fail, nmt=LANGUAGES, node_id="bad")
        await scheduler.add_node(shout, nmt=LANGUAGES, node_id="good")
        async with scheduler.session(src_lang="en", tgt_lang="es") as session:
            for number in range(10):
                assert await said(session, f"text {number}") == f"TEXT {number}"
    assert tried, "the bad node was never asked"


@virtual
async def test_a_client_survives_a_lost_connection() -> None:
    async with MemoryScheduler(delay=uniform(0.01, 0.05)) as scheduler:
        await scheduler.add_node(shout, nmt=LANGUAGES)
        async with scheduler.session(src_lang="en", tgt_lang="es") as session:
            await session.say("hello")
            scheduler.network.links[-1].cut()
            result = await session.next_result()
    assert isinstance(result, TranslationResult)


@virtual
async def test_a_simulated_node_behaves_as_it_is_told() -> None:
    async with MemoryScheduler() as scheduler:
        node = await scheduler.add_simulated_node(
            "n-1", nmt=LANGUAGES, service=seconds(3), text=lambda job: f"<{job.text}>"
        )
        job = await scheduler.submit_job("hello", src_lang="en", tgt_lang="es")
        await job.end()
        assert job.output is not None
        assert job.output.text_translated == "<hello>"
        assert job.ended_at is not None
        assert job.ended_at - job.asked_at >= 3
        node.behaviour.answer = JobEnding.FINAL
        failed = await scheduler.submit_job("again", src_lang="en", tgt_lang="es")
        await failed.end()
        assert failed.code == "MODEL_CRASHED"


@virtual
async def test_messages_need_not_be_written_and_read() -> None:
    async with MemoryScheduler(codec=False) as scheduler:
        await scheduler.add_simulated_node("n-1", nmt=LANGUAGES, service=seconds(1))
        await scheduler.add_node(shout, nmt=LANGUAGES)
        ends = [
            await (await scheduler.submit_job("hello", src_lang="en", tgt_lang="es")).end()
            for _ in range(10)
        ]
        said = {end.output.text_translated for end in ends if end.output is not None}
        assert said == {"n-1", "HELLO"}


@virtual
async def test_a_refused_job_keeps_the_refusal_and_its_end_raises_it() -> None:
    async with MemoryScheduler() as scheduler:
        job = await scheduler.submit_job("hello", src_lang="en", tgt_lang="xx")
        assert isinstance(job.refusal, PairUnsupported)
        with pytest.raises(DragomanError):
            await job.end()


@virtual
async def test_settings_are_given_by_their_dotted_keys() -> None:
    async with MemoryScheduler(settings={"scheduler.job_timeout.run_seconds": 7}) as scheduler:
        assert scheduler.settings.scheduler.job_timeout.run_seconds == 7
    with pytest.raises(SettingsError, match=r"scheduler\.no_such_thing"):
        MemoryScheduler(settings={"scheduler.no_such_thing": 1})


@virtual
async def test_a_node_that_the_scheduler_refuses_is_an_error_at_once() -> None:
    async with MemoryScheduler(settings={"scheduler.pools.max_cells": 1}) as scheduler:
        with pytest.raises(DragomanError, match="offers nothing"):
            await scheduler.add_node(shout)


@virtual
async def test_hours_pass_without_waiting() -> None:
    async with MemoryScheduler() as scheduler:
        node = await scheduler.add_node(shout, nmt=LANGUAGES)
        began = scheduler.clock.monotonic()
        await asyncio.sleep(3 * 3600)
        assert scheduler.clock.monotonic() - began == 3 * 3600
        assert node.status.value == "ready"


@virtual
async def test_nothing_runs_on_when_the_scheduler_is_closed() -> None:
    async with MemoryScheduler() as scheduler:
        await scheduler.add_node(shout, nmt=LANGUAGES)
        await scheduler.add_simulated_node("n-1", nmt=LANGUAGES)
        async with scheduler.session(src_lang="en", tgt_lang="es") as session:
            await said(session, "hello")
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtual
async def test_a_client_of_a_cluster_goes_on_when_its_instance_is_killed() -> None:
    async with MemoryCluster(["a", "b"]) as cluster:
        await cluster.add_node(shout, nmt=LANGUAGES, node_id="n-0")
        await cluster.add_node(shout, nmt=LANGUAGES, node_id="n-1")
        async with cluster.session(src_lang="en", tgt_lang="es") as session:
            assert await said(session, "one") == "ONE"
            at = next(name for name in cluster.instances if len(cluster[name].plane.sessions))
            await cluster.kill(at)
            assert await said(session, "two") == "TWO"


@virtual
async def test_nothing_of_a_cluster_runs_on_when_it_is_closed() -> None:
    async with MemoryCluster(["a", "b", "c"]) as cluster:
        await cluster.add_simulated_node("n-1", "a", nmt=LANGUAGES)
        await cluster["b"].add_simulated_node("n-2", nmt=LANGUAGES)
        await cluster.kill("c")
        await cluster["b"].submit_job("hello", src_lang="en", tgt_lang="es")
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- the same seed, the same run ------------------------------------------------------------------


async def _story() -> list[object]:
    """What a client hears, and when, of two kinds of nodes over a slow network."""
    told: list[object] = []
    async with MemoryScheduler(delay=uniform(0.001, 0.2)) as scheduler:
        for name in ("n-1", "n-2", "n-3"):
            await scheduler.add_simulated_node(name, nmt=LANGUAGES, service=exponential(2.0))
        await scheduler.add_node(shout, nmt=LANGUAGES)
        async with scheduler.session(src_lang="en", tgt_lang="es") as session:
            for number in range(30):
                await session.say(f"text {number}")
            scheduler.network.links[-1].cut()
            await session.close()
            async for result in session.results():
                told.append((result, scheduler.clock.now_ms()))
        told.append([list(node.heard) for node in scheduler.nodes.values()])
    return told


TELL = """
from tests.unit.testing.test_memory_scheduler import _story
from dragoman.testing import run_virtual

print(repr(run_virtual(_story, seed=5)))
"""


def test_the_same_seed_tells_the_same_story_and_another_seed_another() -> None:
    assert run_virtual(_story, seed=5) == run_virtual(_story, seed=5)
    assert run_virtual(_story, seed=5) != run_virtual(_story, seed=6)


def test_the_story_does_not_depend_on_the_process_or_the_order_of_its_sets() -> None:
    one, another = (
        subprocess.run(
            [sys.executable, "-c", TELL],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (1, 2)
    )
    assert "text 29" in one.lower()
    assert one == another


def test_the_room_is_imported_without_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; import dragoman.testing"
    subprocess.run([sys.executable, "-c", program], check=True)
