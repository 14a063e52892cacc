"""What a cutter keeps and where it cuts, with judgements that are the truth."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import SettingsError
from dragoman.voice_activity import Cutter, SpeechRules, Spoken, SpokenEnd

RATE = 16_000
FRAME = 640  # bytes: 20 ms
RULES = SpeechRules(pause_ms=200, min_speech_ms=60, pre_roll_ms=40, tail_ms=40, max_ms=10_000)
"""In frames: a pause of 10, speech from 3 on, 2 before it and 2 after."""


def stream(marks: str) -> bytes:
    """A frame for each mark: # is a voice, and loud; each frame is different from all others."""
    return b"".join(
        bytes([mark == "#", 0])
        + (number.to_bytes(2, "little") + (b"\0\x40" if mark == "#" else b"\0\0"))
        * ((FRAME - 2) // 4)
        + b"\0\0"
        for number, mark in enumerate(marks)
    )


def feed(cutter: Cutter, samples: bytes) -> list[Spoken]:
    """Judge frames that begin with a one to hold a voice."""
    frames = cutter.add(samples)
    assert len(frames) % FRAME == 0
    return cutter.take([frames[at] == 1 for at in range(0, len(frames), FRAME)])


def heard(marks: str, chunk: int = 10**9, rules: SpeechRules = RULES) -> list[Spoken]:
    cutter, data = Cutter(FRAME, RATE, rules), stream(marks)
    found: list[Spoken] = []
    for start in range(0, len(data), chunk):
        found += feed(cutter, data[start : start + chunk])
    left = cutter.finish()
    return found if left is None else [*found, left]


def shown(marks: str, rules: SpeechRules = RULES) -> str:
    """The frames that are kept, with | where the cuts are."""
    line = [" "] * len(marks)
    spoken = heard(marks, rules=rules)
    for one in spoken:
        for number in range(one.start_byte // FRAME, one.end_byte // FRAME):
            line[number] = marks[number]
    for one in reversed(spoken):
        line.insert(one.end_byte // FRAME, "|")
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


@pytest.mark.parametrize(
    ("marks", "kept"),
    [
        # 20 frames at most: the cut is in the longest gap of their second half.
        ("################..#########" + "." * 10, "################.|.#########..|"),
        ("###########################" + "." * 10, "####################|#######..|"),
        # A gap too early is no place for it.
        ("####...#################", "####...#############|####|"),
    ],
)
def test_an_utterance_that_is_too_long_is_cut_between_words_where_it_can_be(
    marks: str, kept: str
) -> None:
    rules = SpeechRules(pause_ms=200, min_speech_ms=60, pre_roll_ms=40, tail_ms=40, max_ms=400)
    found = heard(marks, rules=rules)
    assert found[0].end is SpokenEnd.LENGTH
    assert shown(marks, rules) == kept


def test_an_utterance_says_where_its_voice_ended() -> None:
    [spoken] = heard("....####...........")
    assert spoken.end is SpokenEnd.PAUSE
    assert (spoken.start_byte, spoken.end_byte) == (2 * FRAME, 10 * FRAME)
    assert spoken.speech_end_byte == 8 * FRAME


marks_of_a_stream = st.lists(st.tuples(st.sampled_from("#."), st.integers(1, 30)), max_size=12).map(
    lambda runs: "".join(mark * count for mark, count in runs)
)


@given(
    marks=marks_of_a_stream, chunk=st.integers(1, 3000), max_ms=st.sampled_from([100, 400, 10**4])
)
def test_however_the_stream_is_cut_into_chunks_the_utterances_are_the_same(
    marks: str, chunk: int, max_ms: int
) -> None:
    data = stream(marks)
    rules = SpeechRules(pause_ms=200, min_speech_ms=60, pre_roll_ms=40, tail_ms=40, max_ms=max_ms)
    whole = heard(marks, rules=rules)
    assert heard(marks, chunk, rules) == whole
    ended = 0
    for one in whole:
        assert one.start_byte >= ended, "an utterance that overlaps the one before"
        ended = one.end_byte
        assert data[one.start_byte : ended] == one.samples, "samples that the stream does not hold"
        assert len(one.samples) <= max_ms * 32
        assert one.samples


@given(marks=marks_of_a_stream)
def test_no_voice_of_an_utterance_is_lost_and_silence_is_not_held(marks: str) -> None:
    cutter = Cutter(FRAME, RATE, RULES)
    for number in range(len(marks)):
        feed(cutter, stream(marks)[number * FRAME : (number + 1) * FRAME])
        if not cutter.is_speaking:
            assert cutter.held_bytes <= 8 * FRAME
    kept = set()
    for one in heard(marks):
        kept |= set(range(one.start_byte // FRAME, one.end_byte // FRAME))
    for number, mark in enumerate(marks):
        if mark == "#" and marks[max(0, number - 3) : number + 4].count("#") == 7:
            assert number in kept


@given(marks=marks_of_a_stream, max_ms=st.sampled_from([400, 10_000]))
def test_what_begins_again_where_an_utterance_ended_finds_the_same_utterances(
    marks: str, max_ms: int
) -> None:
    data = stream(marks)
    rules = msgspec.structs.replace(RULES, max_ms=max_ms)
    whole = heard(marks, rules=rules)
    for number, one in enumerate(whole):
        if one.end is not SpokenEnd.FINISHED:
            again = Cutter(FRAME, RATE, rules, goes_on=one.end is SpokenEnd.LENGTH)
            found = feed(again, data[one.end_byte :])
            left = again.finish()
            found += [left] if left is not None else []
            assert [each.samples for each in found] == [
                each.samples for each in whole[number + 1 :]
            ]


def test_frames_that_turn_out_to_have_held_no_voice_are_part_of_the_pause() -> None:
    """A detector that did not listen to all of them says so with the first that it hears."""
    marks = "....####........."
    cutter, data = Cutter(FRAME, RATE, RULES), stream(marks)
    cutter.add(data)
    assert cutter.take([0] * 4 + [1] * 12) == []
    # With this one eight frames were no voice: a pause is ten, of which one may be noise.
    assert cutter.take([-7]) == []
    cutter.add(bytes(FRAME))
    [spoken] = cutter.take([0])
    assert spoken.speech_end_byte == 9 * FRAME
    assert (spoken.start_byte, spoken.end_byte) == (2 * FRAME, 11 * FRAME)


@pytest.mark.parametrize("drop_half", [True, False])
def test_after_the_end_the_stream_may_go_on_and_places_stay_true(drop_half: bool) -> None:
    cutter = Cutter(FRAME, RATE, RULES)
    first = stream("..####") + b"\x01\x02" * 50 + b"\x01"
    assert feed(cutter, first) == []
    spoken = cutter.finish(drop_half=drop_half)
    assert spoken is not None
    assert spoken.samples == first[:-1]
    assert spoken.end_byte == len(first) - (not drop_half)
    assert spoken.speech_end_byte == 6 * FRAME
    assert not cutter.is_speaking
    more = stream("####" + "." * 20)
    [after] = feed(cutter, more if drop_half else more[1:])
    assert after.start_byte == spoken.end_byte
    assert after.samples == more[: 6 * FRAME]
    assert cutter.finish() is None


def test_a_pause_that_is_too_short_to_be_seen_is_refused() -> None:
    with pytest.raises(SettingsError, match="a pause of 10 ms is shorter"):
        Cutter(FRAME, RATE, SpeechRules(pause_ms=10))
