"""A node's functions get audio in the form that they asked for."""

from __future__ import annotations

import asyncio
import sys

import pytest
from tests.unit.audio.sounds import loudest_hertz, opus, tone, wav

from dragoman.audio import Pcm16, read_wav, wav_bytes
from dragoman.errors import ExtraMissing, InvalidCapabilitySchema
from dragoman.live.protocol import AudioFormat
from dragoman.sdk import Answer, AudioWanted, Job, JobFailed
from dragoman.sdk.node.audio import converted, with_audio_as

SOUND = tone(440, 0.8, 44_100)


def job(audio: bytes, audio_format: AudioFormat | None, sample_rate: int | None = None) -> Job:
    return Job(
        src_lang="en",
        tgt_lang="es",
        audio=audio,
        audio_format=audio_format,
        sample_rate=sample_rate,
    )


SENT = [
    job(SOUND.samples, AudioFormat.PCM16, 44_100),
    job(wav_bytes(SOUND), AudioFormat.WAV),
    job(wav(SOUND, channels=2, width=3), AudioFormat.WAV, 16_000),
    job(opus(SOUND), AudioFormat.OPUS, 48_000),
]


@pytest.mark.parametrize("sent", SENT, ids=["pcm16", "wav", "wide wav", "opus"])
def test_whatever_was_sent_arrives_as_it_is_wanted(sent: Job) -> None:
    found = converted(sent, AudioWanted())
    assert (found.audio_format, found.sample_rate) == (AudioFormat.PCM16, 16_000)
    sound = Pcm16(found.audio or b"", 16_000)
    assert sound.seconds == pytest.approx(SOUND.seconds, abs=0.03)
    assert loudest_hertz(sound) == pytest.approx(440, abs=2)
    as_wav = converted(sent, AudioWanted(AudioFormat.WAV, 8_000))
    assert as_wav.audio_format is AudioFormat.WAV
    assert read_wav(as_wav.audio or b"").sample_rate == as_wav.sample_rate == 8_000


def test_without_a_rate_the_client_s_own_is_kept_and_told() -> None:
    found = converted(SENT[1], AudioWanted(sample_rate=None))
    assert (found.sample_rate, found.audio) == (44_100, SOUND.samples)


def test_audio_that_fits_is_passed_on_as_it_is_and_text_is_left_alone() -> None:
    seen: list[Job] = []

    async def work(given: Job) -> Answer:
        seen.append(given)
        return Answer()

    fitting = job(SOUND.samples, AudioFormat.PCM16, 16_000)
    text = Job(src_lang="en", tgt_lang="es", text="hello")
    working = with_audio_as(AudioWanted(), work)
    for one in (fitting, text):
        asyncio.run(working(one))
    assert seen[0] is fitting
    assert seen[1] is text


def test_a_recording_that_cannot_be_read_fails_the_job_and_no_other_node_is_asked() -> None:
    with pytest.raises(JobFailed, match="not a WAV file") as caught:
        converted(job(b"nothing", AudioFormat.WAV), AudioWanted())
    assert caught.value.error.code == "AUDIO_UNREADABLE"
    assert not caught.value.error.retryable


def test_without_the_extra_what_needs_it_is_refused_with_the_command_and_the_rest_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("av", "soxr"):
        monkeypatch.setitem(sys.modules, name, None)
    plain = converted(job(wav_bytes(tone(440, 0.1)), AudioFormat.WAV), AudioWanted())
    assert plain.audio == tone(440, 0.1).samples
    for sent in SENT:
        with pytest.raises(ExtraMissing, match=r"pip install 'dragoman\[audio\]'"):
            converted(sent, AudioWanted())


def test_a_form_that_the_sdk_does_not_write_is_refused() -> None:
    with pytest.raises(InvalidCapabilitySchema, match="ask for pcm16 or wav"):
        AudioWanted(AudioFormat.OPUS)
