"""Where speech is cut, case by case."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.sessions.speaking import (
    RULES,
    Chunk,
    Cutting,
    describe,
    make_segmenter,
    pass_time,
    speak,
)

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import Cut
from dragoman.live.sessions.segmenter import CHUNK_OVERHEAD_BYTES, MOST_CHUNKS_AHEAD

FOREVER = 3600.0

CASES = {
    "a final cuts at once when nothing is missing": (
        [Chunk(0, 0, "ab"), Chunk(20, 1, "cd", final=True)],
        [Cutting(20, Cut.FINAL, "abcd")],
    ),
    "an empty final ends the audio before it": (
        [Chunk(0, 0, "ab"), Chunk(20, 1, "", final=True)],
        [Cutting(20, Cut.FINAL, "ab")],
    ),
    "a final waits for a missing chunk and takes it": (
        [Chunk(0, 0, "ab"), Chunk(20, 2, "ef", final=True), Chunk(100, 1, "cd")],
        [Cutting(100, Cut.FINAL, "abcdef")],
    ),
    "a final waits for the manual hangover only": (
        [Chunk(0, 0, "ab"), Chunk(20, 2, "ef", final=True)],
        [Cutting(220, Cut.FINAL, "abef", missing=1)],
    ),
    "a final takes no chunk after it while it waits": (
        [Chunk(0, 0, "ab"), Chunk(20, 2, "ef", final=True), Chunk(30, 3, "gh")],
        [Cutting(220, Cut.FINAL, "abef", missing=1), Cutting(1030, Cut.PAUSE, "gh")],
    ),
    "two finals wait each for its own hangover": (
        [Chunk(0, 1, "b", final=True), Chunk(100, 3, "d", final=True)],
        [Cutting(200, Cut.FINAL, "b", missing=1), Cutting(300, Cut.FINAL, "d", missing=1)],
    ),
    "one missing chunk lets several utterances out": (
        [Chunk(0, 1, "b", final=True), Chunk(10, 2, "c", final=True), Chunk(20, 0, "a")],
        [Cutting(20, Cut.FINAL, "ab"), Cutting(20, Cut.FINAL, "c")],
    ),
    "a late final divides what a later one would have ended": (
        [Chunk(0, 0, "a"), Chunk(5, 2, "c", final=True), Chunk(20, 1, "b", final=True)],
        [Cutting(20, Cut.FINAL, "ab"), Cutting(20, Cut.FINAL, "c")],
    ),
    "a pause cuts without hangover when nothing is missing": (
        [Chunk(0, 0, "ab"), Chunk(20, 1, "cd")],
        [Cutting(1020, Cut.PAUSE, "abcd")],
    ),
    "a pause waits for a missing chunk during the automatic hangover": (
        [Chunk(0, 0, "ab"), Chunk(20, 2, "ef")],
        [Cutting(1170, Cut.PAUSE, "abef", missing=1)],
    ),
    "the missing chunk of a pause still joins": (
        [Chunk(0, 0, "ab"), Chunk(20, 2, "ef"), Chunk(1100, 1, "cd")],
        [Cutting(1100, Cut.PAUSE, "abcdef")],
    ),
    "the chunk after a pause opens the next utterance": (
        [Chunk(0, 0, "ab"), Chunk(1001, 1, "cd")],
        [Cutting(1000, Cut.PAUSE, "ab"), Cutting(2001, Cut.PAUSE, "cd")],
    ),
    "the chunk that comes exactly when the pause is over opens the next utterance": (
        [Chunk(0, 0, "ab"), Chunk(1000, 1, "cd")],
        [Cutting(1000, Cut.PAUSE, "ab"), Cutting(2000, Cut.PAUSE, "cd")],
    ),
    "the chunk after a pause opens the next one also before a missing lower one": (
        [Chunk(0, 0, "ab"), Chunk(20, 2, "ef"), Chunk(1050, 3, "gh"), Chunk(1060, 1, "cd")],
        [Cutting(1060, Cut.PAUSE, "abcdef"), Cutting(2060, Cut.PAUSE, "gh")],
    ),
    "after a pause two swapped chunks are one utterance": (
        [Chunk(0, 0, "a"), Chunk(1500, 2, "c"), Chunk(1510, 1, "b")],
        [Cutting(1000, Cut.PAUSE, "a"), Cutting(2510, Cut.PAUSE, "bc")],
    ),
    "a chunk without audio does not make the pause longer": (
        [Chunk(0, 0, "ab"), Chunk(900, 1, ""), Chunk(1100, 2, "cd")],
        [Cutting(1000, Cut.PAUSE, "ab"), Cutting(2100, Cut.PAUSE, "cd")],
    ),
    "the button pressed after a pause makes nothing": (
        [Chunk(0, 0, "ab"), Chunk(1200, 1, "", final=True)],
        [Cutting(1000, Cut.PAUSE, "ab")],
    ),
    "the chunk that would pass the duration opens the next utterance": (
        [Chunk(0, 0, "abcd"), Chunk(4, 1, "efgh"), Chunk(8, 2, "i"), Chunk(9, 3, "", final=True)],
        [Cutting(8, Cut.MAX_DURATION, "abcdefgh"), Cutting(9, Cut.FINAL, "i")],
    ),
    "a final chunk that would pass the duration is an utterance of its own": (
        [Chunk(0, 0, "abcdef"), Chunk(6, 1, "ghi", final=True)],
        [Cutting(6, Cut.MAX_DURATION, "abcdef"), Cutting(6, Cut.FINAL, "ghi")],
    ),
    "one chunk over the limit is an utterance by itself": (
        [Chunk(0, 0, "ab"), Chunk(2, 1, "0123456789"), Chunk(12, 2, "cd", final=True)],
        [
            Cutting(2, Cut.MAX_DURATION, "ab"),
            Cutting(2, Cut.MAX_DURATION, "0123456789"),
            Cutting(12, Cut.FINAL, "cd"),
        ],
    ),
    "one final chunk over the limit is ended by its own final": (
        [Chunk(0, 0, "0123456789", final=True)],
        [Cutting(0, Cut.FINAL, "0123456789")],
    ),
    "a length cut after a gap waits for the gap": (
        [Chunk(0, 0, "ab"), Chunk(2, 2, "efgh"), Chunk(6, 3, "ijkl"), Chunk(50, 1, "cd")],
        [Cutting(50, Cut.MAX_DURATION, "abcdefgh"), Cutting(1050, Cut.PAUSE, "ijkl")],
    ),
    "a length cut after a gap waits no longer than the automatic hangover": (
        [Chunk(0, 0, "ab"), Chunk(2, 2, "efgh"), Chunk(6, 3, "ijkl")],
        [Cutting(156, Cut.MAX_DURATION, "abefgh", missing=1), Cutting(1006, Cut.PAUSE, "ijkl")],
    ),
    "all gaps below a length cut are waited for together": (
        [Chunk(0, 1, "bb"), Chunk(2, 3, "dd"), Chunk(4, 5, "ffff"), Chunk(5, 7, "h")],
        [
            Cutting(155, Cut.MAX_DURATION, "bbddffff", missing=4),
            Cutting(1005, Cut.PAUSE, "h"),
        ],
    ),
    "a gap alone is waited for until something ends the utterance": (
        [Chunk(0, 0, "a"), Chunk(10, 2, "c"), Chunk(800, 3, "d"), Chunk(1700, 1, "b")],
        [Cutting(2700, Cut.PAUSE, "abcd")],
    ),
    "the second utterance is cut like the first": (
        [Chunk(0, 0, "a", final=True), Chunk(10, 1, "b", final=True), Chunk(20, 2, "c")],
        [
            Cutting(0, Cut.FINAL, "a"),
            Cutting(10, Cut.FINAL, "b"),
            Cutting(1020, Cut.PAUSE, "c"),
        ],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES.keys())
def test_speech_is_cut_where_the_rules_say(chunks: list[Chunk], expected: list[Cutting]) -> None:
    segmenter = make_segmenter()
    assert speak(segmenter, chunks) + pass_time(segmenter, FOREVER) == expected
    assert segmenter.deadline is None
    assert segmenter.buffered_bytes == 0


def test_bytes_are_a_limit_of_their_own() -> None:
    segmenter = make_segmenter(msgspec.structs.replace(RULES, max_duration_ms=1000, max_bytes=4))
    found = speak(segmenter, [Chunk(0, 0, "abc"), Chunk(3, 1, "d"), Chunk(4, 2, "e")])
    assert found == [Cutting(4, Cut.MAX_BYTES, "abcd")]
    found = speak(segmenter, [Chunk(5, 3, "fghijk")])
    assert found == [Cutting(5, Cut.MAX_BYTES, "e"), Cutting(5, Cut.MAX_BYTES, "fghijk")]


def test_close_cuts_what_is_left_and_waits_for_nothing() -> None:
    segmenter = make_segmenter()
    speak(segmenter, [Chunk(0, 0, "a"), Chunk(1, 2, "c", final=True), Chunk(2, 4, "e")])
    assert describe(0.003, segmenter.close(0.003)) == [
        Cutting(3, Cut.FINAL, "ac", missing=1),
        Cutting(3, Cut.CLOSE, "e", missing=1),
    ]
    assert segmenter.next_chunk_seq == 5
    assert segmenter.deadline is None
    assert segmenter.close(9.0) == []


def test_close_after_an_unnoticed_pause_still_ends_it_as_a_pause() -> None:
    segmenter = make_segmenter()
    speak(segmenter, [Chunk(0, 0, "a")])
    assert describe(5, segmenter.close(5)) == [Cutting(5000, Cut.PAUSE, "a")]


def test_an_empty_final_alone_makes_nothing_and_is_counted() -> None:
    segmenter = make_segmenter()
    assert speak(segmenter, [Chunk(0, 0, "", final=True), Chunk(1, 1, "", final=True)]) == []
    assert segmenter.ignored == {"empty_final": 2}
    assert segmenter.next_chunk_seq == 2
    assert speak(segmenter, [Chunk(2, 2, "a", final=True)]) == [Cutting(2, Cut.FINAL, "a")]


def test_an_empty_final_waits_for_the_audio_it_ends() -> None:
    segmenter = make_segmenter()
    assert speak(segmenter, [Chunk(0, 1, "", final=True), Chunk(50, 0, "a")]) == [
        Cutting(50, Cut.FINAL, "a")
    ]
    assert not segmenter.ignored


def test_repeated_chunks_are_ignored_and_counted() -> None:
    segmenter = make_segmenter()
    chunks = [Chunk(0, 0, "a"), Chunk(1, 0, "x"), Chunk(2, 2, "c"), Chunk(3, 2, "x", final=True)]
    assert speak(segmenter, [*chunks, Chunk(4, 1, "b"), Chunk(5, 3, "d", final=True)]) == [
        Cutting(5, Cut.FINAL, "abcd")
    ]
    assert speak(segmenter, [Chunk(6, 1, "x")]) == []
    assert segmenter.ignored == {"repeated_seq": 3}


def test_a_chunk_that_was_left_out_is_out_of_order_when_it_comes_after_all() -> None:
    segmenter = make_segmenter()
    speak(segmenter, [Chunk(0, 0, "a"), Chunk(1, 2, "c", final=True)])
    assert pass_time(segmenter, 1.0) == [Cutting(201, Cut.FINAL, "ac", missing=1)]
    assert speak(segmenter, [Chunk(1001, 1, "b"), Chunk(1002, 0, "a")]) == []
    assert segmenter.ignored == {"out_of_order": 1, "repeated_seq": 1}


def test_segments_say_which_chunks_they_hold() -> None:
    segmenter = make_segmenter(next_seq=7)
    [first] = segmenter.push(7, b"ab", True, 0.0)
    assert (first.first_seq, first.next_seq, first.chunks) == (7, 8, (b"ab",))
    assert first.duration_ms == 2
    segmenter.push(8, b"c", False, 0.1)
    assert segmenter.next_chunk_seq == 8
    [second] = segmenter.push(9, b"", True, 0.2)
    assert (second.first_seq, second.next_seq, second.chunks) == (8, 10, (b"c",))
    assert segmenter.next_chunk_seq == 10


def test_a_jump_leaves_out_what_it_passes_over() -> None:
    segmenter = make_segmenter()
    far = MOST_CHUNKS_AHEAD
    speak(segmenter, [Chunk(0, 0, "a"), Chunk(1, far, "b", final=True)])
    assert pass_time(segmenter, 1.0) == [Cutting(201, Cut.FINAL, "ab", missing=far - 1)]
    assert speak(segmenter, [Chunk(1001, far // 2, "x")]) == []
    assert segmenter.ignored == {"out_of_order": 1}
    assert segmenter.next_chunk_seq == far + 1


@pytest.mark.parametrize("final", [False, True])
def test_a_jump_too_far_is_refused_and_changes_nothing(final: bool) -> None:
    segmenter = make_segmenter()
    speak(segmenter, [Chunk(0, 0, "a"), Chunk(1, 2, "c")])
    with pytest.raises(InvalidMessage, match=r"seq 503 .* 1 is next"):
        segmenter.push(2 + MOST_CHUNKS_AHEAD + 1, b"z", final, 0.002)
    assert speak(segmenter, [Chunk(3, 1, "b"), Chunk(4, 3, "d", final=True)]) == [
        Cutting(4, Cut.FINAL, "abcd")
    ]


def test_chunks_may_go_on_far_beyond_one_that_is_missing() -> None:
    segmenter = make_segmenter(
        msgspec.structs.replace(RULES, max_duration_ms=10**6, max_bytes=9999)
    )
    for seq in range(2 * MOST_CHUNKS_AHEAD):
        if seq != 1:
            segmenter.push(seq, b"a", False, seq / 1000)
    assert segmenter.push(1, b"a", False, 1.0) == []
    (found,) = segmenter.close(1.0)
    assert found.missing == 0


def test_tiny_and_empty_chunks_that_wait_are_not_free() -> None:
    segmenter = make_segmenter()
    for seq in range(1, 101):
        segmenter.push(seq * 2, b"", False, 0.0)
    assert segmenter.buffered_bytes == 100 * CHUNK_OVERHEAD_BYTES


def test_while_the_client_is_gone_the_pause_clock_stands() -> None:
    segmenter = make_segmenter()
    speak(segmenter, [Chunk(0, 0, "a")])
    segmenter.suspend(0.4)
    assert segmenter.deadline is None
    assert segmenter.due(30.0) == []
    segmenter.resume(30.0)
    assert segmenter.deadline == pytest.approx(30.6)
    assert speak(segmenter, [Chunk(30_500, 1, "b", final=True)]) == [
        Cutting(30_500, Cut.FINAL, "ab")
    ]


def test_a_client_that_comes_back_has_time_to_send_what_is_missing() -> None:
    segmenter = make_segmenter()
    speak(segmenter, [Chunk(0, 0, "a"), Chunk(1, 2, "c", final=True)])
    segmenter.suspend(0.2)
    segmenter.resume(20.0)
    again = [Chunk(20_190, 0, "a"), Chunk(20_191, 1, "b"), Chunk(20_192, 2, "c", final=True)]
    assert speak(segmenter, again) == [Cutting(20_191, Cut.FINAL, "abc")]


def test_a_second_goodbye_does_not_move_the_clock() -> None:
    segmenter = make_segmenter()
    speak(segmenter, [Chunk(0, 0, "a")])
    segmenter.suspend(0.4)
    segmenter.suspend(10.0)
    segmenter.resume(30.0)
    segmenter.resume(40.0)
    assert segmenter.deadline == pytest.approx(30.6)
