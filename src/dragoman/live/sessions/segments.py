"""What a segmenter is told, and what it hands out."""

from __future__ import annotations

import msgspec

from dragoman.live.protocol import Cut


class SegmentRules(msgspec.Struct, frozen=True):
    """Where a speaker's audio is cut into utterances."""

    pause_ms: float
    max_duration_ms: float
    max_bytes: int
    hangover_auto_ms: float
    hangover_manual_ms: float

    def hangover_seconds(self, cut: Cut) -> float:
        """How long missing chunks are waited for before such a cut."""
        manual = cut is Cut.FINAL
        return (self.hangover_manual_ms if manual else self.hangover_auto_ms) / 1000

    def limit_passed(self, duration_ms: float, size_bytes: int) -> Cut | None:
        """The cut for an utterance that has grown so long, or None when it may go on."""
        if duration_ms > self.max_duration_ms:
            return Cut.MAX_DURATION
        if size_bytes > self.max_bytes:
            return Cut.MAX_BYTES
        return None


class Segment(msgspec.Struct, frozen=True):
    """The audio of one utterance: the chunks from first_seq up to, but without, next_seq."""

    first_seq: int
    next_seq: int
    chunks: tuple[bytes, ...]
    cut: Cut
    missing: int
    """How many chunks were waited for and left out."""
    duration_ms: float
    gaps: tuple[tuple[int, int], ...] = ()
    """Where in the chunks some are missing, and how many."""
