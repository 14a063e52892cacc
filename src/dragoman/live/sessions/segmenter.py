"""Cuts a speaker's audio into utterances.

Chunks are taken in the order of their numbers. An utterance ends at a final chunk, after a pause,
before the chunk that would make it too long, or when the session closes. Where chunks below such
an end are missing, they are waited for during the hangover and then left out.

Nothing here knows the time: it is passed in, as seconds that never go back, and what comes out
does not depend on how late ``due`` is called.
"""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from dragoman import errors
from dragoman.live.protocol import Cut
from dragoman.live.sessions.audio import Meter


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
    began: float | None = None
    """When its first audio came, where that is known of each utterance."""
    speech_ended: float | None = None
    """When its last speech came, as far as that can be told from the rest."""
    place: bytes = b""
    """With voice activity: what of the chunk `next_seq` is not needed again."""


class EarlyChunks:
    """Holds early chunks until their turn comes, lowest first.

    Only chunks that came take room, however far apart their numbers are.
    """

    def __init__(self) -> None:
        self.first_seq: int | None = None
        self._chunks: dict[int, tuple[bytes, float]] = {}
        self._order: list[int] = []
        self.count = 0
        self.size_bytes = 0
        self.duration_ms = 0.0

    def __len__(self) -> int:
        return self.count

    def __contains__(self, seq: int) -> bool:
        return seq in self._chunks

    def hold(self, seq: int, payload: bytes, duration_ms: float) -> None:
        self._chunks[seq] = (payload, duration_ms)
        heappush(self._order, seq)
        self.count += 1
        self.first_seq = self._order[0]
        self.size_bytes += len(payload)
        self.duration_ms += duration_ms

    def take_first(self) -> bytes:
        payload, duration_ms = self._chunks.pop(heappop(self._order))
        self.count -= 1
        self.size_bytes -= len(payload)
        self.duration_ms -= duration_ms
        if self._order:
            self.first_seq = self._order[0]
        else:
            self.first_seq = None
            self.duration_ms = 0.0  # sums of floats drift
        return payload


__all__ = [
    "CHUNK_OVERHEAD_BYTES",
    "REMEMBERED_GAPS",
    "EarlyChunks",
    "Segment",
    "SegmentRules",
    "Segmenter",
    "check_not_far_ahead",
]

CHUNK_OVERHEAD_BYTES = 64
"""What a buffered chunk costs besides its audio, so that many tiny ones are not free."""

MOST_CHUNKS_AHEAD = 500
"""How far a chunk may be ahead of all others. A client that sends as fast as it may sends fewer
within any hangover; one wild number would have all chunks up to it left out as missing."""

REMEMBERED_GAPS = 64
"""How many stretches of left-out chunks are remembered: a chunk of theirs is late, not repeated."""


def check_not_far_ahead(seq: int, highest_seq: int, next_seq: int) -> None:
    """Refuse a chunk with a wild number."""
    if seq > highest_seq + MOST_CHUNKS_AHEAD:
        raise errors.InvalidMessage(
            f"audio_chunk seq {seq} came where {next_seq} is next; number chunks from 0, "
            f"next after next, and send none more than {MOST_CHUNKS_AHEAD} ahead.",
            details={"seq": seq, "expected_seq": next_seq},
        )


class _End(NamedTuple):
    """Where an utterance will end, and until when missing chunks below it are waited for."""

    next_seq: int
    cut: Cut
    wait_until: float


class Segmenter:
    """The audio of one session on its way to utterances."""

    def __init__(self, rules: SegmentRules, meter: Meter, next_seq: int = 0) -> None:
        self.ignored: Counter[str] = Counter()
        self._rules = rules
        self._duration_ms = meter.duration_ms
        self._ms_per_byte = meter.ms_per_byte
        self._pause_seconds = rules.pause_ms / 1000
        self._max_duration_ms = rules.max_duration_ms
        self._max_bytes = rules.max_bytes
        self._suspended_at: float | None = None

        # The utterance being spoken.
        self._first_seq = next_seq
        self._chunks: list[bytes] = []
        self._open_bytes = 0
        self._open_ms = 0.0
        self._missing = 0
        self._gaps: list[tuple[int, int]] = []

        # What comes after it.
        self._next_seq = next_seq
        self._highest_seq = next_seq
        """No chunk that came has a higher number, but for the next one and what follows it."""
        self._early = EarlyChunks()
        self._ends: list[_End] = []
        self._length_wait_until: float | None = None

        # A pause ends audio that no other end has closed off yet.
        self._last_audio_at = float("-inf")
        self._audio_end_seq = next_seq
        self._closed_off_seq = next_seq
        self._left_out: deque[range] = deque(maxlen=REMEMBERED_GAPS)

    @property
    def next_chunk_seq(self) -> int:
        """The first chunk that is in no segment returned so far."""
        return self._first_seq

    @property
    def is_open(self) -> bool:
        """Whether an utterance is being spoken, as far as its chunks came in order."""
        return bool(self._chunks)

    @property
    def has_begun(self) -> bool:
        """Whether audio is held that is in no segment yet."""
        return bool(self._chunks) or bool(self._early)

    @property
    def buffered_bytes(self) -> int:
        """The memory held by chunks that are in no segment yet."""
        chunks = len(self._chunks) + self._early.count
        return self._open_bytes + self._early.size_bytes + chunks * CHUNK_OVERHEAD_BYTES

    @property
    def deadline(self) -> float | None:
        """When ``due`` must be called; None while nothing can become due by time alone."""
        if self._suspended_at is not None:
            return None
        pause_at = self._pause_at
        if self._early.first_seq is None:
            return pause_at
        times = (pause_at, self._gap_wait_until)
        return min((time for time in times if time is not None), default=None)

    def push(self, seq: int, payload: bytes, is_final: bool, now: float) -> list[Segment]:
        """Take a chunk; the utterances that end by it, or ended by the time it came."""
        if not is_final and self.append(seq, payload, now):
            return []
        return self._push_any(seq, payload, is_final, now)

    def append(self, seq: int, payload: bytes, now: float) -> bool:
        """Take a chunk that ends nothing, as nearly every one is: the next one, with none missing
        before it, inside an utterance that it does not make too long. False: it was not taken.

        An end that was not made yet waits for a missing chunk, so there is none either.
        """
        if (
            seq != self._next_seq
            or not payload
            or now >= self._last_audio_at + self._pause_seconds
            or self._early.first_seq is not None
        ):
            return False
        open_bytes = self._open_bytes + len(payload)
        if self._ms_per_byte:
            open_ms = self._open_ms + len(payload) * self._ms_per_byte
        else:
            open_ms = self._open_ms + self._duration_ms(payload)
        if open_ms > self._max_duration_ms or open_bytes > self._max_bytes:
            return False
        self._chunks.append(payload)
        self._open_ms = open_ms
        self._open_bytes = open_bytes
        self._last_audio_at = now
        self._next_seq = self._audio_end_seq = seq + 1
        return True

    def due(self, now: float) -> list[Segment]:
        """The utterances that have ended because time passed."""
        segments: list[Segment] = []
        while (deadline := self.deadline) is not None and deadline <= now:
            if deadline == self._gap_wait_until:
                segments += self._stop_waiting(deadline)
            else:
                # Chunks without audio may have come after the last one that had some.
                end_seq = max(self._audio_end_seq, self._next_seq)
                self._end_at(end_seq, Cut.PAUSE, deadline)
                segments += self._advance(deadline)
        return segments

    def close(self, now: float) -> list[Segment]:
        """All that is left, without waiting for anything."""
        segments = self.due(now)
        while self._early:
            self._leave_out_gap()
            segments += self._advance(now)
        return segments + self._end_utterance(self._next_seq, Cut.CLOSE)

    def suspend(self, now: float) -> None:
        """The client is gone: its silence is no pause, and what is missing cannot come."""
        if self._suspended_at is None:
            self._suspended_at = now

    def resume(self, now: float) -> None:
        """The client is back. The pause goes on where it stood; missing chunks get their whole
        hangover again, because the client has just been told what to send."""
        if self._suspended_at is None:
            return
        self._last_audio_at += now - self._suspended_at
        self._suspended_at = None
        hangover = self._rules.hangover_seconds
        self._ends = [end._replace(wait_until=now + hangover(end.cut)) for end in self._ends]
        if self._length_wait_until is not None:
            self._length_wait_until = now + hangover(Cut.MAX_DURATION)

    @property
    def _pause_at(self) -> float | None:
        """When the audio that no end has closed off yet is ended by a pause."""
        if self._audio_end_seq <= self._closed_off_seq:
            return None
        return self._last_audio_at + self._pause_seconds

    @property
    def _gap_wait_until(self) -> float | None:
        """When the chunks that are missing now are given up."""
        return self._ends[0].wait_until if self._ends else self._length_wait_until

    def _push_any(self, seq: int, payload: bytes, is_final: bool, now: float) -> list[Segment]:
        self._highest_seq = max(self._highest_seq, self._next_seq)
        check_not_far_ahead(seq, self._highest_seq, self._next_seq)
        self._highest_seq = max(self._highest_seq, seq)
        segments = self.due(now)
        if seq < self._next_seq or seq in self._early:
            late = any(seq in gap for gap in self._left_out)
            self.ignored["out_of_order" if late else "repeated_seq"] += 1
            return segments
        if payload:
            self._last_audio_at = now
            self._audio_end_seq = max(self._audio_end_seq, seq + 1)
        if is_final:
            self._end_at(seq + 1, Cut.FINAL, now)
        self._early.hold(seq, payload, self._duration_ms(payload) if payload else 0.0)
        return segments + self._advance(now)

    def _end_at(self, next_seq: int, cut: Cut, now: float) -> None:
        heappush(self._ends, _End(next_seq, cut, now + self._rules.hangover_seconds(cut)))
        self._closed_off_seq = max(self._closed_off_seq, next_seq)

    def _advance(self, now: float) -> list[Segment]:
        """Take every chunk whose turn has come, and end every utterance that is complete."""
        segments: list[Segment] = []
        while True:
            if self._ends and self._ends[0].next_seq == self._next_seq:
                segments += self._end_utterance(self._next_seq, heappop(self._ends).cut)
            elif cut := self._rules.limit_passed(self._open_ms, self._open_bytes):
                segments += self._end_utterance(self._next_seq, cut)
            elif self._early.first_seq == self._next_seq:
                segments += self._take(self._early.take_first())
            else:
                break
        self._watch_length(now)
        return segments

    def _take(self, payload: bytes) -> list[Segment]:
        """Add the next chunk, to a new utterance when it would make this one too long."""
        segments: list[Segment] = []
        if payload:
            duration_ms = self._duration_ms(payload)
            cut = self._rules.limit_passed(
                self._open_ms + duration_ms, self._open_bytes + len(payload)
            )
            if cut and self._chunks:
                segments = self._end_utterance(self._next_seq, cut)
            self._chunks.append(payload)
            self._open_ms += duration_ms
            self._open_bytes += len(payload)
        self._next_seq += 1
        return segments

    def _end_utterance(self, next_seq: int, cut: Cut) -> list[Segment]:
        segments: list[Segment] = []
        if self._chunks:
            chunks = tuple(self._chunks)
            gaps = tuple(self._gaps)
            segments.append(
                Segment(
                    self._first_seq,
                    next_seq,
                    chunks,
                    cut,
                    self._missing,
                    self._open_ms,
                    gaps,
                    speech_ended=self._last_audio_at,
                )
            )
            self._gaps = []
        elif cut is Cut.FINAL:
            self.ignored["empty_final"] += 1
        self._first_seq = next_seq
        self._closed_off_seq = max(self._closed_off_seq, next_seq)
        self._chunks = []
        self._open_bytes = 0
        self._open_ms = 0.0
        self._missing = 0
        return segments

    def _watch_length(self, now: float) -> None:
        """Chunks beyond a gap may already be more than one utterance holds: then the gap is waited
        for as before any other cut."""
        if not self._early or self._ends or not self._is_too_long:
            self._length_wait_until = None
        elif self._length_wait_until is None:
            self._length_wait_until = now + self._rules.hangover_seconds(Cut.MAX_DURATION)

    @property
    def _is_too_long(self) -> bool:
        duration_ms = self._open_ms + self._early.duration_ms
        size_bytes = self._open_bytes + self._early.size_bytes
        return self._rules.limit_passed(duration_ms, size_bytes) is not None

    def _stop_waiting(self, now: float) -> list[Segment]:
        """Leave out what is missing before the next end, or before the chunk that is too much."""
        segments: list[Segment] = []
        if self._ends:
            end_seq = self._ends[0].next_seq
            while self._next_seq < end_seq:
                self._leave_out_gap()
                segments += self._advance(now)
        else:
            while self._early and self._is_too_long:
                self._leave_out_gap()
                segments += self._advance(now)
        return segments

    def _leave_out_gap(self) -> None:
        gap_end_seq = self._early.first_seq
        assert gap_end_seq is not None, "a gap lies below a chunk that came"
        self._left_out.append(range(self._next_seq, gap_end_seq))
        missing = gap_end_seq - self._next_seq
        self._missing += missing
        self._gaps.append((len(self._chunks), missing))
        self._next_seq = gap_end_seq
