"""A speaker for tests: one byte is one millisecond of audio, and timers are never late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.live.protocol import AudioFormat, Cut
from dragoman.live.sessions.audio import make_meter
from dragoman.live.sessions.segmenter import Segment, Segmenter, SegmentRules

ONE_BYTE_A_MILLISECOND = 500

RULES = SegmentRules(
    pause_ms=1000, max_duration_ms=8, max_bytes=1000, hangover_auto_ms=150, hangover_manual_ms=200
)


class Chunk(NamedTuple):
    """A chunk and when it arrives."""

    at_ms: int
    seq: int
    audio: str
    final: bool = False


class Cutting(NamedTuple):
    """An utterance and when it was made."""

    at_ms: int
    cut: Cut
    audio: str
    missing: int = 0


def make_segmenter(rules: SegmentRules = RULES, next_seq: int = 0) -> Segmenter:
    meter = make_meter(AudioFormat.PCM16, ONE_BYTE_A_MILLISECOND)
    return Segmenter(rules, meter, next_seq)


def describe(at_seconds: float, segments: Sequence[Segment]) -> list[Cutting]:
    return [
        Cutting(round(at_seconds * 1000), found.cut, b"".join(found.chunks).decode(), found.missing)
        for found in segments
    ]


def pass_time(segmenter: Segmenter, until: float) -> list[Cutting]:
    """Call the segmenter at each of its deadlines, up to a moment."""
    found: list[Cutting] = []
    while (deadline := segmenter.deadline) is not None and deadline <= until:
        found += describe(deadline, segmenter.due(deadline))
    return found


def speak(segmenter: Segmenter, chunks: Sequence[Chunk]) -> list[Cutting]:
    """Send chunks at their times; the utterances made until the last one has arrived."""
    found: list[Cutting] = []
    for chunk in chunks:
        now = chunk.at_ms / 1000
        found += pass_time(segmenter, now)
        found += describe(now, segmenter.push(chunk.seq, chunk.audio.encode(), chunk.final, now))
    return found
