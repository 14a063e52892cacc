"""Functions that break in their own ways: each job ends, and the terminal stays readable."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.sdk.scene import Scene, play, settle

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import JobResult, NodeHeartbeat
from dragoman.sdk import Answer, Event, Job, JobFailed
from dragoman.sdk.node.work import as_work

JOB = Job(src_lang="en", tgt_lang="es", text="hello")


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "dragoman.node")
    return caplog


def said(told: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in told.records if record.name == "dragoman.node"]


class Unspeakable(Exception):
    """An exception that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"inner": inner}
    return inner


async def one_job(scene: Scene) -> None:
    await scene.scheduler.hears(NodeHeartbeat)
    scene.scheduler.assign("job-0")
    await scene.scheduler.hears(JobResult)
    await settle()
    assert scene.node.running == ()


async def raises_the_unspeakable(job: Job) -> Answer:
    raise Unspeakable


async def answers_too_deeply(job: Job) -> Answer:
    return Answer(text_translated="hola", extra=nested(3_000))


async def leaves_the_program(job: Job) -> Answer:
    sys.exit(3)


async def cancels_itself(job: Job) -> Answer:
    raise asyncio.CancelledError


async def gives_no_code(job: Job) -> Answer:
    raise JobFailed("", "no code")


@pytest.mark.parametrize(
    ("work", "shown"),
    [
        (raises_the_unspeakable, "Unspeakable"),
        (answers_too_deeply, "`extra"),
        (leaves_the_program, "SystemExit"),
        (cancels_itself, "cancelled"),
        (gives_no_code, "`code`"),
    ],
)
def test_whatever_a_function_does_its_job_ends_and_the_terminal_says_why(
    work: Any, shown: str, told: pytest.LogCaptureFixture
) -> None:
    scene = play(one_job, work=work)
    [result] = scene.scheduler.all(JobResult)
    assert result.error is not None
    assert result.error.code in {"INTERNAL_ERROR", "INVALID_MESSAGE"}
    assert shown in result.error.message
    assert any("job-0" in line and shown in line for line in said(told))


def test_a_plain_function_that_calls_exit_fails_its_job_and_not_the_node() -> None:
    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="SystemExit"):
            await as_work(lambda job: sys.exit(3), "work")(JOB)

    asyncio.run(scenario())


def test_a_watcher_that_raises_costs_no_job(told: pytest.LogCaptureFixture) -> None:
    def watch(event: Event) -> None:
        raise LookupError(type(event).__name__)

    async def translate(job: Job) -> Answer:
        return Answer(text_translated="\ud800")  # not sent, which is an event of its own

    async def script(scene: Scene) -> None:
        await one_job(scene)
        scene.scheduler.assign("job-1")
        await scene.scheduler.hears(JobResult, 2)

    scene = play(script, work=translate, on_event=watch)
    assert len(scene.scheduler.heard) == 1  # the connection was never lost
    assert sum("LookupError" in line and "Traceback" in line for line in said(told)) == 1
    assert any(line.startswith("on_event failed") for line in said(told))


def test_a_result_that_cannot_be_sent_is_shown_once_and_then_counted(
    told: pytest.LogCaptureFixture,
) -> None:
    async def translate(job: Job) -> Answer:
        return Answer(text_translated="x" * (20_000 + len(job.job_id)))

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        for number in range(12):
            scene.scheduler.assign(f"job-{number}")
            await scene.scheduler.hears(JobResult, number + 1)

    play(script, work=translate, max_frame_bytes=10_000)
    lines = [line for line in said(told) if "job-" in line]
    assert lines[0].startswith("The result of job job-0 was not sent: ")
    assert lines[1:] == [
        "The same 11 times more (a result that was not sent: PAYLOAD_TOO_LARGE),"
        " last in job job-11."
    ]


def test_a_long_message_is_cut_and_control_characters_are_not_written(
    told: pytest.LogCaptureFixture,
) -> None:
    async def translate(job: Job) -> Answer:
        raise ValueError("\x1b[2Jfirst" + "y" * 1_000_000 + "\nlast\x00")

    play(one_job, work=translate)
    [shown] = [line for line in said(told) if "job-0" in line]
    assert len(shown) < 10_000
    assert "ValueError: \\x1b[2Jfirst" in shown
    assert shown.endswith("\nlast\\x00")
    assert "characters are left out" in shown


@pytest.mark.parametrize("extra", [{1: 2}, {"deep": {1: 2}}, {"big": 10**40}, nested(10)])
def test_an_extra_that_json_cannot_hold_names_extra(
    extra: Mapping[str, Any], told: pytest.LogCaptureFixture
) -> None:
    async def translate(job: Job) -> Answer:
        return Answer(text_translated="hola", extra=extra)

    play(one_job, work=translate)
    [line] = [line for line in said(told) if "job-" in line]
    assert line.startswith("Job job-0 failed: The Answer cannot be sent: `extra")


def test_a_tag_that_is_none_is_named_in_words(told: pytest.LogCaptureFixture) -> None:
    async def translate(job: Job) -> Answer:
        return Answer(text_translated="hola", tgt_lang="!!")

    play(one_job, work=translate)
    [line] = [line for line in said(told) if "job-" in line]
    assert "`tgt_lang`" in line
    assert "language tag" in line
    assert "regex" not in line


@pytest.mark.parametrize("code", ["", None, 5])
def test_a_failure_without_a_code_is_refused_where_it_is_made(code: Any) -> None:
    with pytest.raises(InvalidMessage, match="`code`"):
        JobFailed(code, "why")


def test_a_failure_without_words_does_not_quote_the_documentation() -> None:
    failed = JobFailed("TOO_LOUD", "")
    assert failed.message == failed.error.message == "no message was given"


def leaves_at_once(job: Job) -> Answer:
    sys.exit(3)


def test_a_plain_function_without_a_thread_ends_its_job_and_not_the_node() -> None:
    def shout(job: Job) -> Answer:
        return Answer(text_translated=(job.text or "").upper())

    async def script(scene: Scene) -> None:
        await one_job(scene)
        results.extend(scene.scheduler.all(JobResult))

    results: list[JobResult] = []
    play(script, work=shout, threads=False)
    play(script, work=leaves_at_once, threads=False)
    assert [result.success for result in results] == [True, False]
    assert results[1].error is not None
    assert "tried to end the program" in results[1].error.message
