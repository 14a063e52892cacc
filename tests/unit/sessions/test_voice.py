"""Speech found in chunks that come as they like, with a detector that knows the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.voice_activity.speakers import speaker

from dragoman.audio import SAMPLE_BYTES
from dragoman.errors import InvalidMessage
from dragoman.live.protocol import Cut
from dragoman.live.sessions.segmenter import (
    CHUNK_OVERHEAD_BYTES,
    MOST_CHUNKS_AHEAD,
    Segment,
    SegmentRules,
)
from dragoman.live.sessions.voice import VoiceSegmenter, _read_place
from dragoman.voice_activity import SpeechRules, open_detector

RATE = 16_000
FRAME = 640  # bytes: 20 ms
SPEECH = SpeechRules(pause_ms=200, min_speech_ms=60, pre_roll_ms=40, tail_ms=40)
RULES = SegmentRules(
    pause_ms=1000,
    max_duration_ms=10_000,
    max_bytes=524_288,
    hangover_auto_ms=150,
    hangover_manual_ms=200,
)
TIME = 0.02


class Truth:
    """Hears a voice in frames that begin with a one."""

    frame_bytes = FRAME
    passed_over = 0

    def __init__(self, is_quick: bool = True) -> None:
        self.is_quick = is_quick

    def reset(self) -> None:
        """There is nothing to forget."""

    def judge(self, frames: bytes) -> list[bool]:
        assert len(frames) % FRAME == 0
        return [frames[at] == 1 for at in range(0, len(frames), FRAME)]


class Always(Truth):
    """Hears a voice in every frame."""

    def judge(self, frames: bytes) -> list[bool]:
        return [True] * (len(frames) // FRAME)


def stream(marks: str) -> bytes:
    """A frame for each mark: # is a voice; the rest of each frame is different from all others."""
    return b"".join(
        bytes([mark == "#", 0]) + number.to_bytes(4, "big") * ((FRAME - 2) // 4) + b"\0\0"
        for number, mark in enumerate(marks)
    )


def segmenter(
    next_seq: int = 0, place: bytes = b"", *, rules: SegmentRules = RULES, is_quick: bool = True
) -> VoiceSegmenter:
    skip_bytes, goes_on = _read_place(place)
    return VoiceSegmenter(
        rules, SPEECH, Truth(is_quick), RATE, next_seq, skip_bytes, goes_on=goes_on
    )


def chunks_of(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    chunks, at = [], 0
    for size in sizes:
        if at >= len(data):
            break
        chunks.append(data[at : at + size])
        at += size
    return [*chunks, data[at:]] if at < len(data) else chunks


def spoken(listening: VoiceSegmenter, chunks: Sequence[bytes], first_seq: int = 0) -> list[Segment]:
    """Chunks in their order, and the end of the session."""
    found: list[Segment] = []
    for seq, chunk in enumerate(chunks[first_seq:], first_seq):
        found += listening.push(seq, chunk, False, seq * TIME / 100)
        found += judge_all(listening)
    return found + listening.close(len(chunks) * TIME / 100) + judge_all(listening)


def audio_of(segments: Iterable[Segment]) -> list[bytes]:
    return [b"".join(segment.chunks) for segment in segments]


marks_of_a_stream = st.lists(st.tuples(st.sampled_from("#."), st.integers(1, 60)), max_size=8).map(
    lambda runs: "".join(mark * count for mark, count in runs)
)
sizes_of_chunks = st.lists(
    st.integers(1, 20_000) | st.integers(60_000, 200_000), min_size=1, max_size=12
)

TWO_WORDS = "...####" + "." * 20 + "#####" + "." * 20


def test_speech_is_cut_at_its_pauses_and_silence_is_in_no_segment() -> None:
    listening, chunks = segmenter(), chunks_of(stream(TWO_WORDS), [FRAME] * 99)
    segments = spoken(listening, chunks)
    data = stream(TWO_WORDS)
    assert audio_of(segments) == [data[FRAME : 9 * FRAME], data[25 * FRAME : 34 * FRAME]]
    assert [segment.cut for segment in segments] == [Cut.PAUSE, Cut.PAUSE]
    assert [(each.first_seq, each.next_seq) for each in segments] == [(1, 9), (25, 34)]
    assert segments[0].speech_ended == pytest.approx(6 * TIME / 100)


@given(marks=marks_of_a_stream, sizes=sizes_of_chunks, seed=st.integers(0, 2**32))
def test_chunks_of_any_size_in_any_order_make_the_same_utterances(
    marks: str, sizes: list[int], seed: int
) -> None:
    data = stream(marks)
    whole = audio_of(spoken(segmenter(), [data] if data else []))
    chunks = chunks_of(data, sizes * 99)
    assert audio_of(spoken(segmenter(), chunks)) == whole
    order = list(enumerate(chunks))
    Random(seed).shuffle(order)
    listening, found = segmenter(), []
    for seq, chunk in order:
        if seq <= MOST_CHUNKS_AHEAD:
            found += listening.push(seq, chunk, False, 0.0)
            found += judge_all(listening)
            assert listening.push(seq, chunk, False, 0.0) == [], "a repeated chunk was heard"
    if len(chunks) <= MOST_CHUNKS_AHEAD:
        assert audio_of(found + listening.close(0.0) + judge_all(listening)) == whole
        assert listening.ignored["repeated_seq"] == len(chunks)


@given(marks=marks_of_a_stream, sizes=sizes_of_chunks)
def test_a_slow_detector_finds_what_a_quick_one_finds(marks: str, sizes: list[int]) -> None:
    chunks = chunks_of(stream(marks), sizes * 99)
    quick, slow = segmenter(), segmenter(is_quick=False)
    expected = spoken(quick, chunks)
    found = []
    for seq, chunk in enumerate(chunks):
        found += slow.push(seq, chunk, False, seq * TIME / 100)
        if seq % 3 == 0:
            found += judge_all(slow)
    found += slow.close(len(chunks) * TIME / 100)
    found += judge_all(slow)
    assert not slow.has_unjudged
    assert found == expected
    assert (slow.next_chunk_seq, slow.place) == (quick.next_chunk_seq, quick.place)


@given(marks=marks_of_a_stream, sizes=sizes_of_chunks, late=st.sets(st.integers(0, 40)))
def test_a_chunk_that_is_taken_the_short_way_is_heard_as_any_other(
    marks: str, sizes: list[int], late: set[int]
) -> None:
    """Some come after a pause, and some are finals: those are always pushed."""
    chunks = chunks_of(stream(marks), sizes * 99)
    rules = msgspec.structs.replace(RULES, max_duration_ms=400)
    long_way, short_way = segmenter(rules=rules), segmenter(rules=rules)
    now = 0.0
    for seq, chunk in enumerate(chunks):
        now += 2.0 if seq in late else TIME
        is_final = seq % 7 == 6
        had_begun = long_way.has_begun
        expected = long_way.push(seq, chunk, is_final, now)
        assert long_way.has_begun_now == (not had_begun and (bool(expected) or long_way.has_begun))
        begun, found = False, []
        if is_final or not short_way.is_open or not short_way.append(seq, chunk, now):
            found = short_way.push(seq, chunk, is_final, now)
            begun = short_way.has_begun_now
        assert found == expected
        assert begun == long_way.has_begun_now
        assert judge_all(short_way) == judge_all(long_way)
        assert short_way.deadline == long_way.deadline
        assert (short_way.next_chunk_seq, short_way.place) == (
            long_way.next_chunk_seq,
            long_way.place,
        )
    assert short_way.close(now) == long_way.close(now)
    assert short_way.buffered_bytes == long_way.buffered_bytes


@pytest.mark.parametrize("noise_db", [None, 10.0])
@pytest.mark.parametrize("sizes", [[640], [1_280], [3_200], [959, 961, 5, 4_001, 70_000, 2]])
def test_a_detector_that_does_not_listen_to_all_hears_the_same_whatever_the_chunks(
    sizes: list[int], noise_db: float | None
) -> None:
    """Chunks that need no look are left to wait, and are there when an utterance ends early."""
    samples = speaker(11, 5, noise_db=noise_db).sound.samples
    found: list[list[Segment]] = []
    for chunks in ([samples], chunks_of(samples, sizes * 3_000)):
        listening = VoiceSegmenter(RULES, SpeechRules(), open_detector("webrtc", RATE), RATE)
        segments: list[Segment] = []
        for seq, chunk in enumerate(chunks):
            if not listening.is_open or not listening.append(seq, chunk, 0.0):
                segments += listening.push(seq, chunk, False, 0.0)
            segments += judge_all(listening)
            if listening.is_open and not listening.has_begun:
                assert listening.buffered_bytes < RATE * SAMPLE_BYTES + len(chunk), (
                    "silence is kept"
                )
        found.append(segments + listening.close(0.0) + judge_all(listening))
    assert audio_of(found[0]) == audio_of(found[1])
    assert len(found[0]) >= 5


@pytest.mark.parametrize("size", [640, 1_280, 3_200])
def test_an_end_in_the_middle_of_speech_keeps_what_no_detector_has_heard_yet(size: int) -> None:
    stream = speaker(12, 1)
    first, last = stream.words[0][0], stream.words[-1][1]
    chunks = chunks_of(stream.sound.samples[: 2 * last], [size] * 999)
    for count in range(2 * first // size + 20, len(chunks), 3):
        listening = VoiceSegmenter(RULES, SpeechRules(), open_detector("webrtc", RATE), RATE)
        found: list[Segment] = []
        for seq, chunk in enumerate(chunks[:count]):
            if not listening.is_open or not listening.append(seq, chunk, 0.0):
                found += listening.push(seq, chunk, False, 0.0)
        [segment] = found + listening.push(count, b"", True, 0.0)
        assert segment.cut is Cut.FINAL
        assert stream.sound.samples[: count * size].endswith(segment.chunks[0])
        assert listening.buffered_bytes <= CHUNK_OVERHEAD_BYTES


def judge_all(slow: VoiceSegmenter) -> list[Segment]:
    found: list[Segment] = []
    while (frames := slow.unjudged()) is not None:
        found += slow.judged(slow.detector.judge(frames))
    return found


@pytest.mark.parametrize("longest_ms", [10_000, 400])
@pytest.mark.parametrize("is_quick", [True, False])
@given(marks=marks_of_a_stream, sizes=sizes_of_chunks)
def test_another_segmenter_goes_on_where_any_utterance_ended(
    longest_ms: int, is_quick: bool, marks: str, sizes: list[int]
) -> None:
    """What a record keeps of an utterance is enough: nothing is heard twice, nothing is lost, and
    speech that is too long is cut at the same places."""
    rules = msgspec.structs.replace(RULES, max_duration_ms=longest_ms)
    chunks = chunks_of(stream(marks), sizes * 99)
    first = segmenter(is_quick=is_quick, rules=rules)
    segments = spoken(first, chunks)
    for number, segment in enumerate(segments):
        if segment.cut in (Cut.PAUSE, Cut.MAX_DURATION):
            again = segmenter(segment.next_seq, segment.place, is_quick=is_quick, rules=rules)
            rest = spoken(again, chunks, segment.next_seq)
            assert audio_of(rest) == audio_of(segments[number + 1 :])


@given(marks=marks_of_a_stream, sizes=sizes_of_chunks, cut=st.integers(0, 200))
def test_another_segmenter_goes_on_where_only_silence_was_heard(
    marks: str, sizes: list[int], cut: int
) -> None:
    chunks = chunks_of(stream(marks), sizes * 99)
    first = segmenter()
    found = []
    for seq, chunk in enumerate(chunks[:cut]):
        found += first.push(seq, chunk, False, 0.0)
        found += judge_all(first)
    if first.has_begun:
        return
    again = segmenter(first.next_chunk_seq, first.place)
    found += spoken(again, chunks, first.next_chunk_seq)
    assert audio_of(found) == audio_of(spoken(segmenter(), chunks))


def test_silence_is_done_with_and_takes_no_memory() -> None:
    listening = segmenter()
    for seq in range(3_000):
        assert listening.push(seq, bytes(FRAME), False, seq * TIME) == []
    assert listening.next_chunk_seq >= 2_990
    assert listening.buffered_bytes < 20 * FRAME
    assert listening.deadline is None


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_final_ends_what_was_said_and_an_empty_one_is_counted(is_quick: bool) -> None:
    listening = segmenter(is_quick=is_quick)
    data = stream("..####.")
    found = listening.push(0, data, True, 0.0)
    found += listening.push(1, stream("......"), True, 0.1)
    found += judge_all(listening)
    assert audio_of(found) == [data]
    assert found[0].cut is Cut.FINAL
    assert found[0].next_seq == 1
    assert listening.ignored == {"empty_final": 1}
    assert listening.next_chunk_seq == 2


def test_when_no_more_audio_comes_the_utterance_ends_by_time() -> None:
    listening = segmenter()
    assert listening.push(0, stream("..####"), False, 5.0) == []
    assert listening.deadline == 6.12, "the next chunk takes as long to speak"
    assert listening.due(6.1) == []
    [segment] = listening.due(6.12)
    assert segment.cut is Cut.PAUSE
    assert listening.deadline is None


def test_while_the_client_is_away_no_time_passes() -> None:
    listening = segmenter()
    listening.push(0, stream("..####"), False, 5.0)
    listening.suspend(5.5)
    assert listening.deadline is None
    listening.resume(105.5)
    assert listening.deadline == 106.12


def test_a_missing_chunk_is_waited_for_and_then_left_out() -> None:
    data = stream("..####" + "." * 30)
    chunks = chunks_of(data, [FRAME] * 99)
    listening = segmenter()
    found: list[Segment] = []
    for seq, chunk in enumerate(chunks):
        if seq != 4:
            found += listening.push(seq, chunk, False, seq * TIME)
    # Ten frames are held back at 0.28 s, which may hold a pause; then the hangover runs.
    assert audio_of(found) == [data[: 4 * FRAME] + data[5 * FRAME : 8 * FRAME]]
    assert found[0].missing == 1
    listening.push(4, chunks[4], False, 1.0)
    assert listening.ignored == {"out_of_order": 1}


def test_a_final_behind_a_gap_waits_for_the_manual_hangover() -> None:
    listening = segmenter()
    data = stream("..######")
    listening.push(0, data[: 4 * FRAME], False, 0.0)
    assert listening.push(2, data[6 * FRAME :], True, 0.1) == []
    assert listening.deadline == pytest.approx(0.3)
    [segment] = listening.due(0.301)
    assert audio_of([segment]) == [data[: 4 * FRAME] + data[6 * FRAME :]]
    assert segment.cut is Cut.FINAL


@pytest.mark.parametrize("is_quick", [True, False])
def test_samples_are_whole_again_after_a_lost_chunk_of_odd_size(is_quick: bool) -> None:
    data = stream("#" * 40)
    chunks = chunks_of(data, [999] * 99)
    listening = segmenter(is_quick=is_quick)
    listening.detector = Always(is_quick)
    found: list[Segment] = []
    for seq, chunk in enumerate(chunks):
        if seq != 3:
            found += listening.push(seq, chunk, False, 0.0)
    found += listening.close(0.0)
    found += judge_all(listening)
    audio = b"".join(audio_of(found))
    assert len(audio) % 2 == 0
    assert audio[-200:] == data[-200:]


@pytest.mark.parametrize(
    ("changed", "cut"),
    [
        ({"max_duration_ms": 200}, Cut.MAX_DURATION),
        ({"max_bytes": 10 * FRAME}, Cut.MAX_BYTES),
    ],
)
def test_speech_that_is_too_long_is_cut_and_nothing_of_it_is_lost(
    changed: dict[str, int], cut: Cut
) -> None:
    rules = msgspec.structs.replace(RULES, **changed)
    data = stream("#" * 25)
    segments = spoken(segmenter(rules=rules), chunks_of(data, [FRAME] * 99))
    assert b"".join(audio_of(segments)) == data
    assert [segment.cut for segment in segments] == [cut, cut, Cut.CLOSE]


def test_a_very_long_chunk_does_not_hold_up_the_event_loop() -> None:
    """Two minutes of audio in one frame would take a quick detector 20 ms."""
    data = stream(TWO_WORDS * 40)
    listening = segmenter()
    assert listening.push(0, data, False, 0.0) == []
    assert listening.has_unjudged
    # What comes after it waits for its turn.
    assert listening.push(1, stream(TWO_WORDS), False, 0.0) == []
    longest, found = 0, []
    while (frames := listening.unjudged()) is not None:
        longest = max(longest, len(frames))
        found += listening.judged(listening.detector.judge(frames))
    assert longest <= 64_000 + FRAME
    assert len(found) == 82
    assert {segment.next_seq for segment in found[:-3]} == {0}
    # Then chunks are judged as they come again.
    assert len(listening.push(2, stream(TWO_WORDS), False, 0.0)) == 2


def test_a_wild_number_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="seq 2000 came where 0 is next"):
        segmenter().push(2000, b"xx", False, 0.0)
