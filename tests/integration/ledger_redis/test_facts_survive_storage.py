"""What is stored is read back as it was, whatever was left out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integration.ledger_redis.conftest import OpenLedger
from tests.integration.ledger_redis.fleet import HERE, TENANT, ask, claim, join
from tests.servers import RedisProcess

from dragoman.ids import AttemptId, NodeId, RequestId, SessionId
from dragoman.live.ledger import (
    Bound,
    Claimed,
    Cold,
    Ended,
    Ending,
    Existing,
    Finished,
    Granted,
    Heartbeat,
    JobSpec,
    Keep,
    NotSeated,
    Retrying,
    Times,
)
from dragoman.live.protocol import (
    AttemptState,
    AudioFormat,
    Cut,
    ErrorInfo,
    JobClass,
    JobResult,
    Mode,
    Outcome,
    Pipeline,
    Timings,
    Usage,
)

pytestmark = pytest.mark.redis

BARE = JobSpec(TENANT, RequestId("bare"), "zh", "en", Pipeline())
FULL = JobSpec(
    TENANT,
    RequestId("voll/ü 你好"),
    "auto",
    "*",
    Pipeline(True, True, True, True, True),
    job_class=JobClass.BATCH,
    features=("emotion_detection",),
    mode=Mode.TWO_WAY_AUTO,
    lang_a="zh",
    lang_b="en",
    auto_langs=("zh", "de"),
    audio_format=AudioFormat.OPUS,
    sample_rate=16_000,
    cut=Cut.PAUSE,
    padding_ms=120,
    session_id=SessionId("s-1"),
    utterance_index=3,
    preferred_node_id=NodeId("n-1"),
    exclude_node_id=NodeId("n-2"),
    trace_id="t-1",
)
ERROR = ErrorInfo("X", "Ünglück 😀", retryable=True, details={"deep": [1, None, {"x": 1.5}]})
KEEP = Keep(lease_ms=90_000, retention_ms=600_000)


@pytest.mark.parametrize("spec", [BARE, FULL], ids=["every option absent", "every option present"])
@pytest.mark.parametrize(
    "body",
    [{"text": "hello"}, {"audio": bytes(range(256)) * 40}, {"text": "", "audio": b""}],
    ids=["text", "audio", "both empty"],
)
def test_a_job_is_read_back_as_it_was_asked_for(
    redis_server: RedisProcess, open_ledger: OpenLedger, spec: JobSpec, body: dict[str, Any]
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        wanted = claim(spec=spec, **body)
        claimed = await ledger.claim(wanted)
        assert isinstance(claimed, Claimed)
        again = await ledger.claim(wanted)
        assert isinstance(again, Existing)
        assert again.job.spec == spec
        assert await ledger.read(claimed.job_id) == again.job
        assert await ledger.read_input(claimed.job_id) == wanted.input
        await ledger.close()

    asyncio.run(live())


@pytest.mark.parametrize("full", [False, True], ids=["bare result", "full result"])
def test_an_attempt_and_its_result_are_read_back_through_failover_to_the_end(
    redis_server: RedisProcess, open_ledger: OpenLedger, full: bool
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        cell, sender = await join(ledger, "n-1", 2)
        claimed = await ledger.claim(claim())
        assert isinstance(claimed, Claimed)
        job_id = claimed.job_id
        for attempt_id in (AttemptId("a-1"), AttemptId("a-2")):
            granted = await ledger.reserve(ask(cell, job_id=job_id, attempt_id=attempt_id))
            assert isinstance(granted, Granted)
            bound = await ledger.bind(job_id, attempt_id, cell, sender.node_id, total_ms=None)
            assert isinstance(bound, Bound)
            await ledger.transition(cell, attempt_id, sender, AttemptState.RUNNING)
            if attempt_id == "a-1":
                await ledger.finish(
                    cell, attempt_id, sender, Ending(Outcome.FAILED, error=ERROR), due_ms=1
                )
                failed = await ledger.read_attempt(cell, attempt_id)
                assert failed is not None
                assert (failed.error, failed.output) == (ERROR, None)
                retrying = await ledger.retry(
                    job_id, attempt_id, ERROR, times=failed.times, instance_id=HERE, claim_ms=1
                )
                assert isinstance(retrying, Retrying)
        result = JobResult(job_id, AttemptId("a-2"), True)
        if full:
            result = JobResult(
                job_id,
                AttemptId("a-2"),
                True,
                text_asr="你好",
                text_translated="hello",
                src_lang_detected="zh",
                tgt_lang="en",
                tts_audio=bytes(range(256)) * 8_000,
                tts_format="wav",
                timings=Timings(asr_ms=1.5, total_ms=20),
                usage=Usage(3, 4),
                quality_score=0.25,
                extra={"big": 2**62, "none": None},
            )
        finished = await ledger.finish(
            cell, AttemptId("a-2"), sender, Ending(Outcome.SUCCESS, result), due_ms=1
        )
        assert isinstance(finished, Finished)
        attempt = await ledger.read_attempt(cell, AttemptId("a-2"))
        assert attempt is not None
        assert attempt.output == result
        ended = await ledger.end(
            job_id,
            AttemptId("a-2"),
            Ending(Outcome.SUCCESS, result),
            times=attempt.times,
            keep=KEEP,
        )
        assert isinstance(ended, Ended)
        assert ended.job == await ledger.read(job_id)
        assert ended.job.output == result
        first, second = ended.job.attempts
        assert (first.error, second.times) == (ERROR, attempt.times)
        assert first.times != Times()
        assert await ledger.read_input(job_id) is None
        await ledger.close()

    asyncio.run(live())


def test_a_late_heartbeat_never_makes_a_node_and_leaves_no_key(
    redis_server: RedisProcess, open_ledger: OpenLedger, key_prefix: str
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        cell, sender = await join(ledger, "n-1", 2)
        beat = Heartbeat(sender.node_id, sender.epoch, 45_000)
        await ledger.remove(cell, sender)
        assert await ledger.beat(cell, beat) == Cold(cell)
        await ledger.forget(sender.node_id, sender.epoch)
        assert redis_server.command("KEYS", f"{key_prefix}:*") == f"{key_prefix}:{{directory}}:full"
        await join(ledger, "n-2", 2)
        assert await ledger.beat(cell, beat) == NotSeated(sender.node_id)
        record = await ledger.read_cell(cell)
        assert record is not None
        assert [seat.node_id for seat in record.seats] == ["n-2"]
        await ledger.close()

    asyncio.run(live())


def test_every_key_that_a_crash_could_leave_behind_expires(
    redis_server: RedisProcess, open_ledger: OpenLedger, key_prefix: str
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        cell, _ = await join(ledger, "n-1", 2)
        claimed = await ledger.claim(claim())
        assert isinstance(claimed, Claimed)
        await ledger.reserve(ask(cell, job_id=claimed.job_id))
        await ledger.close()

    asyncio.run(live())
    keys = redis_server.command("KEYS", f"{key_prefix}:*").split()
    lasting = {key for key in keys if redis_server.command("TTL", key) == "-1"}
    assert len(keys) > 8
    assert all("{directory}" in key for key in lasting)
