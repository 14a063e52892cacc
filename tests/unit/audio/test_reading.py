"""Recordings of every form become the same samples."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest
from tests.unit.audio.sounds import coded, loudest_hertz, numbers, opus, tone, wav

from dragoman import audio
from dragoman.audio import Pcm16, from_samples, read_opus, read_wav, resampled, wav_bytes
from dragoman.errors import AudioUnreadable

SOUND = tone(440, 0.8)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_of_any_width_and_any_channels_is_read(width: int, channels: int) -> None:
    found = read_wav(wav(SOUND, width=width, channels=channels))
    assert found.sample_rate == SOUND.sample_rate
    assert len(found.samples) == len(SOUND.samples)
    off = np.abs(numbers(found).astype(int) - numbers(SOUND).astype(int)).max()
    # Eight bits keep 256 steps; FFmpeg's weights of six channels keep the tone, not its volume.
    assert off <= (256 if width == 1 else 2) or channels == 6
    assert loudest_hertz(found) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("codec", ["pcm_f32le", "pcm_alaw", "pcm_mulaw"])
def test_wav_with_other_codecs_is_read(codec: str) -> None:
    found = read_wav(coded(SOUND, codec, "wav"))
    assert found.seconds == pytest.approx(SOUND.seconds, abs=0.01)
    assert loudest_hertz(found) == pytest.approx(440, abs=2)


def test_plain_wav_goes_and_comes_back_the_same() -> None:
    assert read_wav(wav_bytes(SOUND)) == SOUND


def test_wav_from_a_pipe_which_claims_to_be_longer_than_it_is_is_read() -> None:
    content = bytearray(wav_bytes(SOUND))
    content[4:8] = content[40:44] = b"\xff\xff\xff\x7f"
    assert read_wav(bytes(content)) == SOUND


def test_opus_in_ogg_is_decoded_and_lasts_as_long_as_what_was_coded() -> None:
    found = read_opus(opus(SOUND))
    assert found.sample_rate == 48_000
    assert found.seconds == pytest.approx(SOUND.seconds, abs=0.03)
    assert loudest_hertz(found) == pytest.approx(440, abs=2)


def test_a_recording_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio.reading, "MAX_SECONDS", 2.0)
    silence = opus(Pcm16(bytes(2 * 16_000 * 3), 16_000))
    assert len(silence) < 3000
    with pytest.raises(AudioUnreadable, match="longer than 2 seconds"):
        read_opus(silence)


@pytest.mark.parametrize(
    ("read", "content", "says"),
    [
        (read_wav, b"", "not a WAV file"),
        (read_wav, b"hello, this is no audio at all", "not a WAV file"),
        (read_wav, wav_bytes(SOUND)[:30], "cannot be decoded"),
        (read_wav, wav_bytes(Pcm16(b"", 16_000)), "no samples"),
        (read_wav, wav_bytes(Pcm16(SOUND.samples, 1)), "has the rate 1 Hz"),
        (read_wav, wav(Pcm16(SOUND.samples, 2), width=3), "has the rate 2 Hz"),
        (read_opus, b"", "not Opus in Ogg"),
        (read_opus, wav_bytes(SOUND), "not Opus in Ogg"),
        (read_opus, b"OggS" + bytes(100), "cannot be decoded"),
        (lambda content: from_samples(content, None), b"\x01", "no sample"),
    ],
)
def test_what_is_no_recording_is_refused_in_words(read: object, content: bytes, says: str) -> None:
    assert callable(read)
    with pytest.raises(AudioUnreadable, match=says):
        read(content)


@pytest.mark.parametrize("good", [wav_bytes(SOUND), wav(SOUND, channels=2, width=3), opus(SOUND)])
def test_damaged_recordings_are_read_or_refused_and_nothing_else(good: bytes) -> None:
    random = Random(20_261)
    read = read_opus if good.startswith(b"OggS") else read_wav
    for _ in range(400):
        damaged = bytearray(good[: random.randrange(len(good))])
        for _ in range(random.randrange(6)):
            if damaged:
                damaged[random.randrange(min(len(damaged), 400))] = random.randrange(256)
        with suppress(AudioUnreadable):
            assert read(bytes(damaged)).samples


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_resampling_keeps_the_tone_and_the_time(rate: int) -> None:
    found = resampled(tone(440, 1.0, rate), 16_000)
    assert found.sample_rate == 16_000
    assert found.seconds == pytest.approx(1.0, abs=0.001)
    assert loudest_hertz(found) == pytest.approx(440, abs=2)
    assert np.abs(numbers(found)).max() == pytest.approx(0.5 * 32767, rel=0.05)


def test_what_the_new_rate_cannot_hold_is_filtered_out_and_not_folded_back() -> None:
    found = resampled(tone(7_000, 1.0, 16_000), 8_000)
    assert np.abs(numbers(found)[200:-200]).max() < 100


def test_the_same_rate_is_the_same_sound() -> None:
    assert resampled(SOUND, SOUND.sample_rate) is SOUND


def test_half_a_sample_is_dropped_and_padding_is_silence_after_the_sound() -> None:
    sound = from_samples(b"\x01\x02\x03\x04\x05", 8_000)
    assert sound == Pcm16(b"\x01\x02\x03\x04", 8_000)
    assert sound.padded(10).samples == b"\x01\x02\x03\x04" + bytes(160)
    assert sound.padded(0) is sound
