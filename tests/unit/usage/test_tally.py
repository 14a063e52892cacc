"""What a job used is counted once, for its tenant and its day."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman.audio import Pcm16, seconds_of, wav_bytes
from dragoman.clock import ManualClock
from dragoman.ids import AttemptId, JobId, RequestId, TenantId
from dragoman.live.dispatch import Job
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import AudioFormat, JobResult, Pipeline, Usage
from dragoman.live.snapshot import JobRequirement, PoolRule
from dragoman.usage import UsageTally

RED, BLUE = TenantId("red"), TenantId("blue")
PIPELINE = Pipeline(use_nmt=True)
REQUIREMENT = JobRequirement(PoolRule.ASR_TTS, (("en", "es"),), PIPELINE, ())


def job(tenant: TenantId, *, text: str | None = None, audio: bytes | None = None) -> Job:
    spec = JobSpec(
        tenant,
        RequestId("r"),
        "en",
        "es",
        PIPELINE,
        audio_format=AudioFormat.PCM16 if audio is not None else None,
        sample_rate=16_000 if audio is not None else None,
    )
    given = JobInput(audio, text)
    return Job(spec, given, b"", REQUIREMENT, None, 0.0, 0.0, False, "es")


def result(usage: Usage | None = None, text_asr: str | None = None) -> JobResult:
    return JobResult(
        job_id=JobId("j"),
        attempt_id=AttemptId("a"),
        success=True,
        text_asr=text_asr,
        text_translated="hola",
        usage=usage,
    )


def test_what_the_node_reports_counts_and_what_it_does_not_is_measured() -> None:
    clock = ManualClock()
    tally = UsageTally(clock)
    tally.count(job(RED, text="hello"), result(Usage(7, 3)), clock.monotonic())
    tally.count(job(RED, audio=bytes(32_000)), result(None, text_asr="good day"), clock.monotonic())
    tally.count(job(RED, audio=bytes(32_000)), result(Usage(0, 0, 2.5, 40)), clock.monotonic())
    tally.count(job(BLUE, text="hi"), result(), clock.monotonic())
    day = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).date().isoformat()
    assert tally.totals() == {
        (RED, day): (3, 3_500, len("hello") + len("good day") + 40, 7, 3),
        (BLUE, day): (1, 0, 2, 0, 0),
    }


def test_a_day_ends_at_midnight_and_is_kept_until_it_is_written() -> None:
    clock = ManualClock()
    tally = UsageTally(clock)
    tally.count(job(RED, text="hello"), result(), clock.monotonic())
    clock.advance(24 * 3600)
    tally.count(job(RED, text="again"), result(), clock.monotonic())
    totals = tally.totals()
    assert [values[0] for values in totals.values()] == [1, 1]
    assert len({day for _, day in totals}) == 2
    tally.wrote(totals)
    assert len(tally.totals()) == 1, "what is over and written is not kept"


def test_recordings_are_measured_by_their_headers() -> None:
    sound = Pcm16(bytes(48_000 * 2), 24_000)
    assert seconds_of(sound.samples, "pcm16", 24_000) == 2
    assert seconds_of(wav_bytes(sound), "wav", 16_000) == 2
    assert seconds_of(b"RIFF", "wav", None) == 4 / 32_000
    ogg = b"OggS" + bytes(2) + (96_000).to_bytes(8, "little") + bytes(400)
    assert seconds_of(ogg, "opus", None) == 2
    assert seconds_of(b"x" * 4_000, "opus", None) == 1
    assert seconds_of(b"", None, None) == 0
