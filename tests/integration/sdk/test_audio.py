"""A node converts the audio of its jobs, over a real socket."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.integration.sdk.sockets import scheduling
from tests.unit.audio.sounds import opus, tone

from dragoman.audio import wav_bytes
from dragoman.live.protocol import AudioFormat, JobResult, NodeHeartbeat, Pipeline
from dragoman.sdk import Answer, AudioWanted, Job, Node

HEAR = Pipeline(use_asr=True)
SOUND = tone(440, 0.8, 44_100)


def test_a_node_never_sees_a_format_that_it_did_not_ask_for() -> None:
    seen: list[Job] = []

    async def recognise(job: Job) -> Answer:
        seen.append(job)
        return Answer(text_asr="a tone")

    async def scenario() -> None:
        async with scheduling() as (scheduler, url):
            node = Node(url, services={"asr": recognise}, asr=["en"], audio=AudioWanted())
            serving = asyncio.create_task(node.serve())
            await scheduler.hears(NodeHeartbeat)
            sent = [
                ("wav", wav_bytes(SOUND), AudioFormat.WAV),
                ("opus", opus(SOUND), AudioFormat.OPUS),
                ("broken", b"x", AudioFormat.OPUS),
            ]
            for number, (name, audio, audio_format) in enumerate(sent):
                scheduler.assign(name, audio=audio, audio_format=audio_format, pipeline=HEAR)
                await scheduler.hears(JobResult, number + 1)
            wav_result, opus_result, broken = scheduler.all(JobResult)
            assert wav_result.success
            assert opus_result.success
            assert broken.error is not None
            assert (broken.error.code, broken.error.retryable) == ("AUDIO_UNREADABLE", False)
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    asyncio.run(scenario())
    assert [job.job_id for job in seen] == ["wav", "opus"]
    for job in seen:
        assert (job.audio_format, job.sample_rate) == (AudioFormat.PCM16, 16_000)
        assert len(job.audio or b"") == pytest.approx(0.8 * 16_000 * 2, abs=1_000)
