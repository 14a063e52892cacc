"""What holds for any way to cut, lose, swap and repeat chunks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sessions.speaking import RULES, make_segmenter

from dragoman.live.protocol import Cut
from dragoman.live.sessions.segmenter import Segment, Segmenter

Arrival = tuple[float, int, bytes, bool]
"""When, which seq, what audio, final or not."""

AUDIO = st.binary(max_size=5)


@st.composite
def chaotic_arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Any chunks in any order at any time, lost and repeated, a seq always with the same audio."""
    audio = draw(st.lists(AUDIO, min_size=1, max_size=25))
    finals = draw(st.sets(st.integers(0, len(audio) - 1)))
    seqs = draw(st.lists(st.integers(0, len(audio) - 1), max_size=60))
    pauses = draw(
        st.lists(
            st.sampled_from([0.0, 0.001, 0.1, 0.149, 0.15, 0.2, 0.9, 1.0, 1.3]),
            min_size=len(seqs),
            max_size=len(seqs),
        )
    )
    now = 0.0
    arrivals: list[Arrival] = []
    for seq, pause in zip(seqs, pauses, strict=True):
        now += pause
        arrivals.append((now, seq, audio[seq], seq in finals))
    return arrivals


@st.composite
def swapped_arrivals(draw: st.DrawFn) -> tuple[bytes, list[Arrival]]:
    """Speech of which every chunk arrives, some late or twice, but none as late as a hangover."""
    audio = draw(st.lists(AUDIO, max_size=40))
    now = 0.0
    arrivals: list[Arrival] = []
    for seq, payload in enumerate(audio):
        final = draw(st.booleans())
        now += draw(st.sampled_from([0.0, 0.02, 0.5, 1.5]))
        for delay in draw(st.lists(st.floats(0, 0.149), min_size=1, max_size=2)):
            arrivals.append((now + delay, seq, payload, final))
    arrivals.sort(key=lambda arrival: arrival[0])
    return b"".join(audio), arrivals


def push_all(segmenter: Segmenter, arrivals: Sequence[Arrival]) -> list[Segment]:
    """Push and close, with timers that are never late."""
    segments: list[Segment] = []
    for now, seq, payload, final in arrivals:
        while (deadline := segmenter.deadline) is not None and deadline <= now:
            segments += segmenter.due(deadline)
        segments += segmenter.push(seq, payload, final, now)
    return segments + segmenter.close(arrivals[-1][0] if arrivals else 0.0)


@given(swapped_arrivals())
def test_what_was_said_comes_out_each_byte_once_and_in_order(
    speech: tuple[bytes, list[Arrival]],
) -> None:
    said, arrivals = speech
    segments = push_all(make_segmenter(), arrivals)
    assert b"".join(b"".join(found.chunks) for found in segments) == said
    assert all(found.missing == 0 for found in segments)


@given(chaotic_arrivals())
def test_every_chunk_that_came_is_in_one_utterance_or_counted(arrivals: list[Arrival]) -> None:
    segmenter = make_segmenter()
    segments = push_all(segmenter, arrivals)
    taken = sum(len(found.chunks) for found in segments)
    ignored = segmenter.ignored["repeated_seq"] + segmenter.ignored["out_of_order"]
    came = len(arrivals)
    assert taken + ignored <= came
    empty = sum(1 for arrival in arrivals if not arrival[2])
    assert taken + ignored + empty >= came
    assert segmenter.buffered_bytes == 0
    assert segmenter.deadline is None


@given(chaotic_arrivals())
def test_utterances_follow_each_other_and_hold_their_own_chunks_in_order(
    arrivals: list[Arrival],
) -> None:
    audio_of = {seq: payload for _, seq, payload, _ in arrivals}
    next_seq = 0
    for found in push_all(make_segmenter(), arrivals):
        assert found.first_seq >= next_seq
        next_seq = found.next_seq
        expected = [audio_of.get(seq) for seq in range(found.first_seq, found.next_seq)]
        rest = iter(expected)
        assert all(chunk in rest for chunk in found.chunks)
        silent = sum(1 for chunk in expected if chunk == b"")
        assert len(expected) - silent <= len(found.chunks) + found.missing <= len(expected)


@given(chaotic_arrivals())
def test_no_utterance_passes_a_limit_unless_one_chunk_does(arrivals: list[Arrival]) -> None:
    rules = msgspec.structs.replace(RULES, max_duration_ms=4, max_bytes=3)
    for found in push_all(make_segmenter(rules), arrivals):
        size = sum(map(len, found.chunks))
        assert found.chunks
        assert size <= rules.max_bytes or len(found.chunks) == 1
        assert size == found.duration_ms


@given(chaotic_arrivals(), st.lists(st.booleans(), min_size=60, max_size=60))
def test_the_cuts_do_not_depend_on_when_the_timer_fires(
    arrivals: list[Arrival], late: list[bool]
) -> None:
    segmenter = make_segmenter()
    segments: list[Segment] = []
    for (now, seq, payload, final), timer_is_late in zip(arrivals, late, strict=False):
        if not timer_is_late:
            segments += segmenter.due(now)
        segments += segmenter.push(seq, payload, final, now)
    segments += segmenter.close(arrivals[-1][0] if arrivals else 0.0)
    assert segments == push_all(make_segmenter(), arrivals)


@given(st.lists(st.tuples(AUDIO, st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5])), max_size=30))
def test_no_utterance_goes_on_after_a_pause(speech: list[tuple[bytes, float]]) -> None:
    now, last_audio_at = 0.0, 0.0
    arrivals: list[Arrival] = []
    after_a_pause: set[int] = set()
    for seq, (payload, silence) in enumerate(speech):
        now += silence
        arrivals.append((now, seq, payload, False))
        if payload:
            if now - last_audio_at >= 1.0:
                after_a_pause.add(seq)
            last_audio_at = now
    segments = push_all(make_segmenter(), arrivals)
    audio_of = {seq: payload for _, seq, payload, _ in arrivals}
    begins = {
        next(seq for seq in range(found.first_seq, found.next_seq) if audio_of[seq])
        for found in segments
    }
    assert after_a_pause <= begins


@given(chaotic_arrivals())
def test_only_close_cuts_with_close(arrivals: list[Arrival]) -> None:
    segmenter = make_segmenter()
    segments = push_all(segmenter, arrivals)
    assert all(found.cut is not Cut.CLOSE for found in segments[:-1])
