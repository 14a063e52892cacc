"""Results over the scheduler's frame limit: the attempt ends with that reason, once."""

from __future__ import annotations

import pytest
from tests.unit.sdk.scene import Scene, play, settle

from dragoman.live.protocol import JobPartial, JobResult, NodeHeartbeat
from dragoman.sdk import Answer, Ended, Job, ResultNotSent

LIMIT_BYTES = 10_000


@pytest.mark.parametrize("over", [False, True])
def test_a_result_over_the_limit_is_replaced_by_its_reason(over: bool) -> None:
    async def work(job: Job) -> Answer:
        job.partial("x" * 2 * LIMIT_BYTES)  # dropped: it is no end of anything
        return Answer(tts_audio=bytes(LIMIT_BYTES if over else LIMIT_BYTES - 1_000))

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobResult)
        await settle()
        assert scene.node.running == ()

    scene = play(script, work=work, max_frame_bytes=LIMIT_BYTES)
    [result] = scene.scheduler.all(JobResult)
    assert not scene.scheduler.all(JobPartial)
    assert len(scene.scheduler.heard) == 1  # one connection: nothing was closed, nothing repeated
    assert result.success is not over
    if over:
        assert result.error is not None
        assert (result.error.code, result.error.retryable) == ("PAYLOAD_TOO_LARGE", False)
        assert str(LIMIT_BYTES) in result.error.message
        # The end is told before the answer goes out: another node may begin as soon as it is out.
        told = [type(event) for event in scene.events]
        assert told[-2:] == [Ended, ResultNotSent]


def test_a_limit_that_was_not_told_is_no_limit() -> None:
    async def work(job: Job) -> Answer:
        return Answer(tts_audio=bytes(LIMIT_BYTES))

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)
        scene.scheduler.assign("a")
        await scene.scheduler.hears(JobResult)

    [result] = play(script, work=work).scheduler.all(JobResult)
    assert result.success
