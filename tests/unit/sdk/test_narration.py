"""What a node tells the person who runs it."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.unit.sdk.scene import Scene, play, settle

from dragoman.live.protocol import (
    Command,
    JobResult,
    NodeControl,
    NodeHealth,
    NodeHeartbeat,
    NodeStatus,
)
from dragoman.sdk import Answer, FunctionFailed, Job, JobFailed
from dragoman.sdk.node.work import as_work

pytestmark = pytest.mark.usefixtures("told")


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "dragoman.node")
    return caplog


def said(told: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in told.records if record.name == "dragoman.node"]


async def breaks(job: Job) -> Answer:
    raise ZeroDivisionError(f"by zero in {job.text}")


async def one_after_another(scene: Scene, count: int, *, every_seconds: float = 0.1) -> None:
    await scene.scheduler.hears(NodeHeartbeat)
    for number in range(count):
        scene.scheduler.assign(f"job-{number}", text=f"number {number}")
        await scene.scheduler.hears(JobResult, number + 1)
        await asyncio.sleep(every_seconds)


def test_an_exception_is_shown_with_its_traceback_and_its_job(
    told: pytest.LogCaptureFixture,
) -> None:
    scene = play(lambda scene: one_after_another(scene, 1), work=breaks)
    [shown] = [line for line in said(told) if "failed" in line]
    assert shown.startswith("Job job-0 failed:\nTraceback")
    assert shown.endswith("ZeroDivisionError: by zero in number 0")
    assert "in breaks" in shown
    assert "sdk/node" not in shown  # the frames of the SDK say nothing to a node's owner
    [failed] = [event for event in scene.events if isinstance(event, FunctionFailed)]
    assert isinstance(failed.error, ZeroDivisionError)


def test_a_kind_of_failure_is_shown_once_and_then_counted_now_and_then(
    told: pytest.LogCaptureFixture,
) -> None:
    play(lambda scene: one_after_another(scene, 250), work=breaks)
    lines = [line for line in said(told) if "failed" in line or "The same" in line]
    assert "Traceback" in lines[0]
    assert not any("Traceback" in line for line in lines[1:])
    assert len(lines) <= 5  # 25 seconds: the first, two counts, and what was left at the end
    counted = [int(line.split()[2]) for line in lines[1:]]
    assert sum(counted) == 249
    assert "ZeroDivisionError at test_narration.py:" in lines[1]
    assert lines[-1].endswith("last in job job-249.")


def test_failures_of_different_kinds_are_each_shown(told: pytest.LogCaptureFixture) -> None:
    async def breaks_in_turns(job: Job) -> Answer:
        if job.job_id.endswith("0"):
            raise KeyError(job.job_id)
        if job.job_id.endswith("1"):
            raise KeyError(job.job_id)  # another place
        raise JobFailed("TOO_LOUD", "the speaker shouts")

    play(lambda scene: one_after_another(scene, 3), work=breaks_in_turns)
    lines = [line for line in said(told) if "failed" in line]
    assert [line.count("Traceback") for line in lines] == [1, 1, 0]
    assert lines[2] == "Job job-2 failed with TOO_LOUD: the speaker shouts"


def test_a_wrong_return_type_says_what_was_returned_and_what_is_expected(
    told: pytest.LogCaptureFixture,
) -> None:
    async def translate(job: Job) -> Answer:
        return f"hola {job.job_id}"  # type: ignore[return-value]

    scene = play(lambda scene: one_after_another(scene, 3), work=translate)
    expected = (
        "translate returned str 'hola job-0'; it must return an Answer, as in "
        "`return Answer(text_translated=...)`."
    )
    [first, again] = [line for line in said(told) if "job-" in line]
    assert first == f"Job job-0 failed: {expected}"
    assert again == "The same 2 times more (str returned by translate), last in job job-2."
    result = scene.scheduler.all(JobResult)[0]
    assert result.error is not None
    assert result.error.message == expected


def test_an_answer_with_a_wrong_field_names_the_field(told: pytest.LogCaptureFixture) -> None:
    async def translate(job: Job) -> Answer:
        return Answer(text_translated=["hola"])  # type: ignore[arg-type]

    play(lambda scene: one_after_another(scene, 1), work=translate)
    [line] = [line for line in said(told) if "job-" in line]
    assert "`text_translated`: Expected `str | null`, got `array`" in line
    assert "['hola']" in line


def test_a_plain_function_that_returns_a_coroutine_is_awaited() -> None:
    async def translate(job: Job) -> Answer:
        return Answer(text_translated="hola")

    work = as_work(lambda job: translate(job), "work")
    answer = asyncio.run(work(Job(src_lang="en", tgt_lang="es", text="hello")))
    assert answer.text_translated == "hola"


def test_a_node_says_that_it_is_connected_and_with_what(told: pytest.LogCaptureFixture) -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.send(NodeStatus(NodeHealth.READY))
        await settle()

    play(script, tts=["es"])
    assert said(told)[:2] == [
        "Node n-chosen is connected to the scheduler: 2 slots, nmt en es, tts es; 2 pools, cell 0",
        "Node n-chosen is ready for jobs.",
    ]


def test_a_node_says_why_it_gets_no_jobs(told: pytest.LogCaptureFixture) -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        for status in (
            NodeStatus(NodeHealth.READY, "in no pool; add nmt languages."),
            NodeStatus(NodeHealth.DEGRADED, "7 of its last 10 jobs failed; it gets one at a time"),
            NodeStatus(NodeHealth.DEGRADED, "7 of its last 10 jobs failed; it gets one at a time"),
            NodeStatus(NodeHealth.DEGRADED),
            NodeStatus(NodeHealth.DRAINING),
            NodeStatus(NodeHealth.REGISTERING, "resumed by an operator"),
        ):
            scene.scheduler.send(status)
        await settle()

    play(script)
    assert said(told)[1:] == [
        "Node n-chosen gets no jobs: in no pool; add nmt languages.",
        "Node n-chosen is degraded: 7 of its last 10 jobs failed; it gets one at a time.",
        "Node n-chosen is degraded and gets no jobs.",
        "Node n-chosen is draining and gets no jobs.",
        "Node n-chosen is registering and gets no jobs: resumed by an operator.",
    ]


def test_a_shutdown_is_told_with_its_reason(told: pytest.LogCaptureFixture) -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.send(NodeControl(Command.SHUTDOWN, "new hardware"))
        await scene.serving

    play(script)
    assert (
        "Node n-chosen was told to shut down (new hardware): it finishes its jobs and leaves."
    ) in said(told)
