"""Functions that break in their own ways: each job ends, and the terminal stays readable."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pytest
from tests.unit.sdk.scene import Scene, play, settle

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import JobPartial, JobResult, NodeHeartbeat, Timings, Usage
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


class Confidence:
    """A scalar as numpy and torch have them: a value with a shape, and `item`."""

    shape = ()

    def item(self) -> float:
        return 0.9


class Words(str):
    """A text of another library's class, as numpy's is."""


class Milliseconds(float):
    """A number of another library's class."""


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"extra": {"confidence": Confidence()}}, {"extra": {"confidence": 0.9}}),
        ({"extra": MappingProxyType({"a": Fraction(1, 2)})}, {"extra": {"a": 0.5}}),
        ({"text_translated": Words("hola")}, {"text_translated": "hola"}),
        ({"quality_score": Milliseconds(0.5)}, {"quality_score": 0.5}),
        ({"tts_audio": bytearray(b"\x00\x01")}, {"tts_audio": b"\x00\x01"}),
        (
            {"timings": {"nmt_ms": 1, "total_ms": 2}},
            {"timings": Timings(nmt_ms=1.0, total_ms=2.0)},
        ),
        (
            {"timings": Timings(nmt_ms=Milliseconds(3), total_ms=4.0)},
            {"timings": Timings(nmt_ms=3.0, total_ms=4.0)},
        ),
    ],
)
def test_values_of_other_libraries_are_sent_as_the_plain_ones_that_they_stand_for(
    given: dict[str, Any], sent: dict[str, Any]
) -> None:
    async def translate(job: Job) -> Answer:
        return Answer(**given)

    [result] = play(one_job, work=translate, slots=1).scheduler.all(JobResult)
    assert result.success
    assert {name: getattr(result, name) for name in sent} == sent


class Evil:
    """An object that raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"extra": {"model": object()}}, "extra"),
        ({"extra": {"model": Evil()}}, "extra"),
        ({"extra": Confidence()}, "extra"),
        ({"extra": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, "extra"),
        ({"timings": 5}, "timings"),
        ({"timings": Timings(nmt_ms="soon")}, "timings.nmt_ms"),  # type: ignore[arg-type]
        ({"usage": Usage(characters=-1)}, "usage.characters"),
        ({"text_translated": object()}, "text_translated"),
        ({"tts_audio": "bm90Ynl0ZXM="}, "tts_audio"),
    ],
)
def test_an_answer_that_cannot_be_sent_names_its_field_and_frees_the_slot(
    given: dict[str, Any], field: str, told: pytest.LogCaptureFixture
) -> None:
    async def translate(job: Job) -> Answer:
        if job.job_id == "job-0":
            return Answer(**given)
        return Answer(text_translated="hola")

    async def script(scene: Scene) -> None:
        await one_job(scene)
        scene.scheduler.assign("job-1")
        await scene.scheduler.hears(JobResult, 2)

    first, second = play(script, work=translate, slots=1).scheduler.all(JobResult)
    assert first.error is not None
    assert first.error.message.startswith(f"The Answer cannot be sent: `{field}`: ")
    assert any(f"`{field}`" in line and "job-0" in line for line in said(told))
    assert second.success


class Careless(JobFailed):
    """A failure that was never set up: its `error` is missing."""

    def __init__(self) -> None:
        pass


def test_a_failure_that_cannot_be_read_is_an_end_like_any_other(
    told: pytest.LogCaptureFixture,
) -> None:
    async def translate(job: Job) -> Answer:
        raise Careless

    [result] = play(one_job, work=translate, slots=1).scheduler.all(JobResult)
    assert result.error is not None
    assert result.error.code == "INTERNAL_ERROR"
    assert "AttributeError" in result.error.message
    assert any("job-0" in line and "AttributeError" in line for line in said(told))


def test_partial_words_of_another_class_are_sent_as_text_and_others_refused() -> None:
    async def translate(job: Job) -> Answer:
        job.partial(Words("ho"))
        job.partial(5)  # type: ignore[arg-type]
        return Answer(text_translated="hola")

    scene = play(one_job, work=translate)
    [partial] = scene.scheduler.all(JobPartial)
    [result] = scene.scheduler.all(JobResult)
    assert partial.text == "ho"
    assert result.error is not None
    assert "`text` of a partial is 5; give a text" in result.error.message


def test_a_message_without_a_form_on_the_wire_does_not_end_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.node.leave(Words("a reason"))  # said at once, as a message
        await settle()

    scene = play(script)
    assert len(scene.scheduler.heard) == 1
    assert "message_not_sent" in caplog.text
