"""What a cutter keeps and where it cuts, with a detector that knows the truth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import SettingsError
from dragoman.voice_activity import Cut, Cutter, Heard, Kept, Pace

RATE = 16_000
FRAME = 640  # bytes: 20 ms
PACE = Pace(pause_ms=200, min_speech_ms=60, pre_roll_ms=40, tail_ms=40)
"""In frames: a pause of 10, speech from 3 on, 2 before it and 2 after."""


class Truth:
    """Hears a voice in frames that begin with a one."""

    frame_bytes = FRAME

    def is_voiced(self, frame: bytes) -> bool:
        assert len(frame) == FRAME
        return frame[0] == 1


def stream(marks: str) -> bytes:
    """A frame for each mark: # is a voice; the rest of each frame is different from all others."""
    return b"".join(
        bytes([mark == "#", 0]) + number.to_bytes(4, "big") * ((FRAME - 2) // 4) + b"\0\0"
        for number, mark in enumerate(marks)
    )


def heard(marks: str, chunk: int = 10**9) -> list[Heard]:
    cutter, data = Cutter(Truth(), RATE, PACE), stream(marks)
    found: list[Heard] = []
    for start in range(0, len(data), chunk):
        found += cutter.feed(data[start : start + chunk])
    return found + cutter.finish()


def shown(marks: str) -> str:
    """The frames that are kept, with | where the cuts are."""
    line = [" "] * len(marks)
    cuts = []
    for one in heard(marks):
        if isinstance(one, Kept):
            first = one.at_sample * 2 // FRAME
            for number in range(first, first + len(one.samples) // FRAME):
                line[number] = marks[number]
        else:
            cuts.append(one.at_sample * 2 // FRAME)
    for cut in reversed(cuts):
        line.insert(cut, "|")
    return "".join(line).rstrip()


@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        ("", ""),
        ("." * 50, ""),
        ("....####...........", "  ..####..|"),
        ("####...............", "####..|"),
        # Less than three frames of voice is a click; and clicks far apart are no speech.
        ("...##...............", ""),
        ("...#......#......#..", ""),
        # A short gap between words is kept, and so are gaps within the beginning.
        ("...####.....####...........", " ..####.....####..|"),
        ("...#.#.#...............", " ..#.#.#..|"),
        # One frame of noise does not undo a pause; it is kept with the silence before it.
        ("...####....#..............", " ..####....#..|"),
        # Two utterances; the silence between them is not kept.
        (
            "...####..............####............",
            " ..####..|          ..####..|",
        ),
        # The end of the stream ends the utterance; nothing is lost.
        ("...####..", " ..####..|"),
        ("...##", ""),
    ],
)
def test_speech_is_kept_with_what_surrounds_it_and_pauses_cut(marks: str, kept: str) -> None:
    assert shown(marks) == kept


def test_a_cut_says_where_the_voice_ended() -> None:
    [_, cut] = heard("....####...........")
    assert cut == Cut(at_sample=10 * FRAME // 2, speech_end_sample=8 * FRAME // 2)


marks_of_a_stream = st.lists(st.tuples(st.sampled_from("#."), st.integers(1, 30)), max_size=12).map(
    lambda runs: "".join(mark * count for mark, count in runs)
)


def utterances(found: list[Heard]) -> list[tuple[int, bytes]]:
    """Where each utterance begins, and what it holds."""
    done: list[tuple[int, bytes]] = []
    start: int | None = None
    samples = b""
    for one in found:
        if isinstance(one, Cut):
            assert start is not None, "a cut without an utterance"
            assert one.at_sample == start + len(samples) // 2
            done.append((start, samples))
            start, samples = None, b""
        else:
            start = one.at_sample if start is None else start
            assert one.at_sample == start + len(samples) // 2, "a hole in an utterance"
            samples += one.samples
    assert start is None, "an utterance that no cut ends"
    return done


@given(marks=marks_of_a_stream, chunk=st.integers(1, 3000))
def test_however_the_stream_is_cut_into_chunks_the_utterances_are_the_same(
    marks: str, chunk: int
) -> None:
    data = stream(marks)
    whole = utterances(heard(marks))
    assert utterances(heard(marks, chunk)) == whole
    ended = 0
    for start, samples in whole:
        assert start * 2 >= ended, "an utterance that overlaps the one before"
        ended = start * 2 + len(samples)
        assert data[start * 2 : ended] == samples, "samples that the stream does not hold"


@given(marks=marks_of_a_stream)
def test_no_voice_of_an_utterance_is_lost_and_little_is_ever_held(marks: str) -> None:
    cutter = Cutter(Truth(), RATE, PACE)
    for number in range(len(marks)):
        cutter.feed(stream(marks)[number * FRAME : (number + 1) * FRAME])
        assert cutter.held_bytes <= 10 * FRAME
    kept = set()
    for start, samples in utterances(heard(marks)):
        kept |= set(range(start * 2 // FRAME, (start * 2 + len(samples)) // FRAME))
    for number, mark in enumerate(marks):
        if mark == "#" and marks[max(0, number - 3) : number + 4].count("#") == 7:
            assert number in kept


def test_after_the_end_the_stream_may_go_on_and_positions_stay_true() -> None:
    cutter = Cutter(Truth(), RATE, PACE)
    first = stream("..####") + b"\x01\x02" * 50 + b"\x09"
    found = cutter.feed(first) + cutter.finish()
    assert found[-1] == Cut(len(first) // 2, 6 * FRAME // 2)
    assert not cutter.is_speaking
    [kept, _] = cutter.feed(stream("####" + "." * 20))
    assert isinstance(kept, Kept)
    assert kept.at_sample == len(first) // 2
    assert cutter.finish() == []


def test_a_pause_that_is_too_short_to_be_seen_is_refused() -> None:
    with pytest.raises(SettingsError, match="a pause of 10 ms is shorter"):
        Cutter(Truth(), RATE, Pace(pause_ms=10))
