from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.sdk.scene import IDLE, Scene, now, play, settle
from tests.unit.sdk.scheduler import HEARTBEAT_MS

from dragoman.ids import AttemptId, JobId
from dragoman.live.gateway import fixed
from dragoman.live.protocol import (
    Command,
    ErrorInfo,
    JobAck,
    JobPartial,
    JobResult,
    JobStarted,
    Message,
    ModelNotAvailable,
    NodeControl,
    NodeDrain,
    NodeHealth,
    NodeHeartbeat,
    NodeRegister,
    NodeStatus,
    RunningJob,
)
from dragoman.sdk import (
    Accepted,
    Answer,
    Commanded,
    Ended,
    HealthChanged,
    Job,
    JobFailed,
    ModelMissing,
    Refused,
    Registered,
)


def names(messages: Sequence[Message]) -> list[str]:
    return [type(message).__name__ for message in messages]


def listed(*attempts: str) -> tuple[RunningJob, ...]:
    return tuple(RunningJob(JobId(name), AttemptId(name)) for name in attempts)


def test_a_node_registers_first_and_its_first_heartbeat_follows_the_ack_at_once() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        assert now() == 1.0  # connecting, registering, being acknowledged, and one way more
        assert scene.node.node_id == "n-chosen"
        assert scene.node.status is NodeHealth.REGISTERING

    scene = play(script, delay=fixed(0.2))
    [register, heartbeat] = scene.scheduler.heard[0]
    assert isinstance(register, NodeRegister)
    assert register.languages.nmt_langs == ("en", "es")
    assert [service.service_id for service in register.services] == ["nmt"]
    assert register.max_concurrent_jobs == 2
    assert heartbeat == NodeHeartbeat(IDLE, ())
    assert isinstance(scene.events[0], Registered)
    assert (scene.events[0].cell, scene.events[0].pools) == (0, 2)


def test_heartbeats_keep_the_interval_that_the_scheduler_asked_for() -> None:
    async def script(scene: Scene) -> None:
        await asyncio.sleep(10.5 * HEARTBEAT_MS / 1000)

    scene = play(script)
    beats = scene.scheduler.heard_at[0][1:]
    assert beats == pytest.approx([5.0 * number for number in range(11)])


def test_a_job_is_acknowledged_before_it_is_worked_on_and_ends_in_one_result() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a", text="hello")
        await asyncio.sleep(0.25)
        scene.jobs.finish("a")
        await scene.scheduler.hears(JobResult)
        assert scene.node.running == ()

    scene = play(script)
    assert names(scene.scheduler.heard[0][2:]) == ["JobAck", "JobStarted", "JobResult"]
    [result] = scene.scheduler.all(JobResult)
    assert result.success
    assert result.text_translated == "HELLO"
    assert result.timings is not None
    assert result.timings.total_ms == pytest.approx(250)
    assert scene.events[1:] == [
        Accepted(JobId("a"), AttemptId("a")),
        Ended(JobId("a"), AttemptId("a"), None),
    ]


def test_a_heartbeat_lists_what_runs() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        scene.scheduler.assign("b")
        await scene.scheduler.hears(JobStarted, 2)
        scene.scheduler.send(NodeControl(Command.REPORT))
        await scene.scheduler.hears(NodeHeartbeat, 2)
        scene.jobs.finish("a")
        await scene.scheduler.hears(JobResult)
        scene.scheduler.send(NodeControl(Command.REPORT))
        await scene.scheduler.hears(NodeHeartbeat, 3)

    beats = play(script).scheduler.all(NodeHeartbeat)
    assert [beat.running for beat in beats] == [(), listed("a", "b"), listed("b")]


def test_more_jobs_than_slots_are_refused_at_once() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        for name in "abc":
            scene.scheduler.assign(name)
        [refused] = await scene.scheduler.hears(JobResult)
        assert refused.attempt_id == "c"
        assert refused.error is not None
        assert (refused.error.code, refused.error.retryable) == ("NODE_OVERLOADED", True)
        assert scene.node.running == listed("a", "b")
        scene.jobs.finish("a")
        await scene.scheduler.hears(JobResult, 2)
        scene.scheduler.assign("d")
        await scene.scheduler.hears(JobAck, 3)

    scene = play(script)
    assert scene.node.high_water == scene.jobs.most_at_once == 2
    assert Refused(JobId("c"), AttemptId("c"), "NODE_OVERLOADED") in scene.events


def test_the_same_assignment_twice_is_one_job() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobAck, 2)
        scene.jobs.finish("a")
        await settle()

    scene = play(script)
    assert scene.jobs.started == ["a"]
    assert len(scene.scheduler.all(JobResult)) == 1


@pytest.mark.parametrize("begun", [True, False], ids=["running", "not yet begun"])
def test_a_cancelled_job_stops_and_says_so(begun: bool) -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        if begun:
            await scene.scheduler.hears(JobStarted)
        scene.scheduler.cancel("a")
        scene.scheduler.cancel("a")
        await scene.scheduler.hears(JobResult)
        assert scene.node.running == ()

    scene = play(script)
    result = scene.scheduler.all(JobResult)[0]
    assert result.error is not None
    assert (result.success, result.error.code) == (False, "JOB_CANCELLED")


def test_a_cancel_of_an_unknown_attempt_is_answered_too() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.cancel("never-seen")
        [result] = await scene.scheduler.hears(JobResult)
        assert result.attempt_id == "never-seen"
        assert result.error is not None
        assert result.error.code == "JOB_CANCELLED"

    play(script)


def test_a_function_that_ignores_its_cancel_keeps_its_slot_and_its_answer_is_not_sent() -> None:
    async def stubborn(job: Job) -> Answer:
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            await asyncio.sleep(7)
        return Answer(text_translated="too late")

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        scene.scheduler.cancel("a")
        await settle()
        assert scene.node.running == listed("a")
        scene.scheduler.assign("b")
        await scene.scheduler.hears(JobResult, 2)

    results = play(script, slots=1, work=stubborn).scheduler.all(JobResult)
    assert [(r.attempt_id, r.error and r.error.code) for r in results] == [
        ("b", "NODE_OVERLOADED"),
        ("a", "JOB_CANCELLED"),
    ]


async def fails(job: Job) -> Answer:
    raise JobFailed("TOO_LOUD", "the speaker shouts", retryable=False, details={"db": 110})


async def breaks(job: Job) -> Answer:
    raise ZeroDivisionError("by zero \ud800")


async def returns_text(job: Job) -> Answer:
    return "hola"  # type: ignore[return-value]


async def answers_nonsense(job: Job) -> Answer:
    return Answer(text_translated=7)  # type: ignore[arg-type]


async def answers_what_cannot_be_written(job: Job) -> Answer:
    return Answer(text_translated="half a pair: \ud800")


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (fails, ErrorInfo("TOO_LOUD", "the speaker shouts", False, {"db": 110})),
        (breaks, ErrorInfo("INTERNAL_ERROR", "ZeroDivisionError: by zero ?")),
        (returns_text, ErrorInfo("INTERNAL_ERROR", "must return an Answer")),
        (answers_nonsense, ErrorInfo("INTERNAL_ERROR", "Expected `str | null`, got `int`")),
        (answers_what_cannot_be_written, ErrorInfo("INTERNAL_ERROR", "replace lone surrogates")),
    ],
)
def test_whatever_goes_wrong_in_a_function_ends_its_job(work: object, error: ErrorInfo) -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobResult)
        assert scene.node.running == ()

    [result] = play(script, work=work).scheduler.all(JobResult)
    assert not result.success
    assert result.error is not None
    assert error.message in result.error.message
    assert (result.error.code, result.error.retryable) == (error.code, error.retryable)
    assert result.error.details == error.details


def test_a_missing_model_ends_the_attempt_and_names_the_service() -> None:
    async def work(job: Job) -> Answer:
        raise ModelMissing("nmt-small", "not downloaded", version="2")

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        [told] = await scene.scheduler.hears(ModelNotAvailable)
        assert told == ModelNotAvailable(
            "nmt-small", "not downloaded", "2", JobId("a"), AttemptId("a")
        )
        assert scene.node.running == ()

    assert play(script, work=work).scheduler.all(JobResult) == []


def test_partial_results_go_out_while_the_job_runs_and_not_after_it() -> None:
    kept: list[Job] = []

    async def work(job: Job) -> Answer:
        kept.append(job)
        job.partial("he")
        await asyncio.sleep(1)
        job.partial("hello", is_final=True)
        return Answer(text_asr="hello")

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobResult)
        kept[0].partial("more")
        await settle()

    scene = play(script, work=work)
    partials = scene.scheduler.all(JobPartial)
    assert [(partial.text, partial.is_final) for partial in partials] == [
        ("he", False),
        ("hello", True),
    ]


def test_the_node_knows_how_the_scheduler_sees_it() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.send(NodeStatus(NodeHealth.READY))
        scene.scheduler.send(NodeControl(Command.DRAIN, "maintenance"))
        await settle()
        assert scene.node.status is NodeHealth.READY

    scene = play(script)
    assert HealthChanged(NodeHealth.READY, None) in scene.events
    assert Commanded(Command.DRAIN, "maintenance") in scene.events
    assert scene.scheduler.all(NodeDrain) == []  # the operator's drain is not the node's own


def test_told_to_shut_down_the_node_finishes_its_jobs_and_leaves() -> None:
    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobStarted)
        scene.scheduler.send(NodeControl(Command.SHUTDOWN, "bye"))
        await scene.scheduler.hears(NodeDrain)
        scene.scheduler.assign("b")
        await scene.scheduler.hears(JobResult)
        scene.jobs.finish("a")
        await scene.serving

    results = play(script).scheduler.all(JobResult)
    assert [(r.attempt_id, r.error and r.error.code) for r in results] == [
        ("b", "NODE_UNAVAILABLE"),
        ("a", None),
    ]
