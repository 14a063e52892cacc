"""Cuts a speaker's audio at the pauses of their speech; what is not speech is not kept.

A voice segmenter stands where a `Segmenter` stands in a session without voice activity. Chunks are
taken in the order of their numbers, and their samples go through a detector. A missing chunk is
waited for until it could matter to a cut, and then during the hangover, as before any other cut.

The detector judges at once, or, when it is slow or has much to do, where the session lets it:
`unjudged` says what is to be judged next, and `judged` takes the answer. A segmenter neither knows
the time nor waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from struct import Struct

import msgspec

from dragoman.audio import SAMPLE_BYTES
from dragoman.errors import DependencyDown, ExtraMissing, InvalidMessage
from dragoman.extras import require_extra
from dragoman.ids import SessionId
from dragoman.live.protocol import AudioFormat, Cut, SessionInit, Vad, sample_rate_fault
from dragoman.live.sessions.segmenter import (
    CHUNK_OVERHEAD_BYTES,
    REMEMBERED_GAPS,
    EarlyChunks,
    Segment,
    SegmentRules,
    check_not_far_ahead,
)
from dragoman.observability import get_logger
from dragoman.voice_activity import (
    MODULES,
    Cutter,
    Detector,
    Judgement,
    SpeechRules,
    Spoken,
    SpokenEnd,
    open_detector,
)

__all__ = [
    "VoiceRules",
    "VoiceSegmenter",
    "check_can_go_on",
    "has_voice_activity",
    "judge_in_thread",
    "voice_segmenter",
    "with_voice_activity",
]

log = get_logger("dragoman.sessions")

_PLACE = Struct("<I")
_GOES_ON = b"\1"
"""Follows the place of a speaker who was cut for length: they are speaking there."""
_RETRY_MS = 1000
"""When a client asks again for a session that cannot go on here."""
_JUDGED_AT_ONCE_BYTES = 64_000
"""So much is judged in one piece: two seconds at 16 kHz. A longer chunk does not hold up the event
loop, whatever the detector."""


class VoiceRules(msgspec.Struct, frozen=True):
    """Voice activity of sessions that do not ask for their own, and what it may take."""

    vad: Vad
    min_speech_ms: int
    pre_roll_ms: int
    pause_ms: float
    """So much without a voice ends an utterance."""
    max_silero_sessions: int


def with_voice_activity(init: SessionInit, rules: VoiceRules) -> SessionInit:
    """The session as it will be cut: with all that it leaves to the settings, so that another
    instance cuts it the same way.

    The settings turn voice activity on only where it can be; raises InvalidMessage where the
    client asks for a detector that is not installed.
    """
    vad = init.vad
    if vad is None:
        vad = rules.vad
        if vad is not Vad.OFF and (
            init.audio_format is not AudioFormat.PCM16 or sample_rate_fault(vad, init.sample_rate)
        ):
            vad = Vad.OFF
    if vad is Vad.OFF:
        return init
    if (missing := _missing_extra(vad)) is not None:
        raise InvalidMessage(
            f"`vad` is `{vad}`, which this server cannot do. {missing}",
            details={"problem": "bad_field", "field": "vad"},
        )
    return msgspec.structs.replace(
        init,
        vad=vad,
        min_speech_ms=rules.min_speech_ms if init.min_speech_ms is None else init.min_speech_ms,
        pre_roll_ms=rules.pre_roll_ms if init.pre_roll_ms is None else init.pre_roll_ms,
    )


def check_can_go_on(init: SessionInit, session_id: SessionId) -> None:
    """Raise DependencyDown where a session of another instance has a detector that is not here.

    Its client tries again, perhaps at an instance that has it; until then nothing of it is touched.
    """
    if not has_voice_activity(init):
        return
    assert init.vad is not None, "a session with voice activity names its detector"
    if (missing := _missing_extra(init.vad)) is None:
        return
    log.warning_limited(
        "session_needs_extra", key=init.vad.value, every_seconds=10, session_id=session_id
    )
    raise DependencyDown(
        f"Session {session_id} has `vad` `{init.vad}`, which this server cannot do, so the session "
        f"stays where it is; resume it at another instance. {missing}",
        retry_after_ms=_RETRY_MS,
    )


def _missing_extra(vad: Vad) -> str | None:
    """What this server lacks for a detector, with the command that installs it; None: nothing."""
    try:
        require_extra("vad", f"Voice activity by `{vad}`", MODULES[vad.value])
    except ExtraMissing as missing:
        return missing.message
    return None


def has_voice_activity(init: SessionInit) -> bool:
    """Whether an open session is cut where its speaker pauses."""
    return init.vad is not None and init.vad is not Vad.OFF


def voice_segmenter(
    init: SessionInit, rules: VoiceRules, segments: SegmentRules, next_seq: int, place: bytes
) -> VoiceSegmenter:
    """What cuts a session's audio that has voice activity, from a chunk on."""
    assert init.vad is not None, "a session without voice activity has another segmenter"
    speech = SpeechRules(
        pause_ms=rules.pause_ms,
        min_speech_ms=rules.min_speech_ms if init.min_speech_ms is None else init.min_speech_ms,
        pre_roll_ms=rules.pre_roll_ms if init.pre_roll_ms is None else init.pre_roll_ms,
    )
    detector = open_detector(init.vad.value, init.sample_rate)
    skip_bytes, goes_on = _read_place(place)
    return VoiceSegmenter(
        segments, speech, detector, init.sample_rate, next_seq, skip_bytes, goes_on=goes_on
    )


def _read_place(stored: bytes) -> tuple[int, bool]:
    """From what a record keeps: how many bytes of the next chunk are in utterances already, and
    whether the last of them was cut for its length, so that the speaker goes on."""
    goes_on = stored[_PLACE.size :] == _GOES_ON
    if len(stored) != _PLACE.size and not goes_on:
        return 0, False
    return _PLACE.unpack_from(stored)[0], goes_on


@cache
def _threads() -> ThreadPoolExecutor:
    """One thread, so that the event loop never competes with more."""
    return ThreadPoolExecutor(1, thread_name_prefix="voice-activity")


async def judge_in_thread(detector: Detector, frames: bytes) -> Sequence[Judgement]:
    """What a slow detector says of frames; all are kept when it fails, and speech is not lost."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(_threads(), detector.judge, frames)
    except Exception:
        log.exception("voice_not_judged")
        return [True] * (len(frames) // detector.frame_bytes)


class _Chunk(msgspec.Struct, frozen=True, gc=False):
    """A chunk whose samples may still become part of an utterance."""

    seq: int
    start_byte: int
    """Where its samples begin, counted over all that went to the cutter."""
    skipped_bytes: int
    """What of its beginning did not go there."""
    arrived: float


class VoiceSegmenter:
    """The audio of one session on its way to utterances, as a detector hears them."""

    def __init__(
        self,
        rules: SegmentRules,
        speech: SpeechRules,
        detector: Detector,
        sample_rate: int,
        next_seq: int = 0,
        skip_bytes: int = 0,
        *,
        goes_on: bool = False,
    ) -> None:
        """skip_bytes of the first chunk are in utterances already; goes_on: the last of those was
        cut for its length."""
        self.ignored: Counter[str] = Counter()
        self.has_begun_now = False
        """An utterance began with the last chunk that was pushed."""
        self._appended: tuple[int, list[Segment]] | None = None
        """What came of a chunk that `append` could not take alone."""
        self.detector = detector
        self._is_quick = detector.is_quick
        self._rules = rules
        self._seconds_per_byte = 1 / (SAMPLE_BYTES * sample_rate)
        self._ms_per_byte = 1000 * self._seconds_per_byte
        by_size_ms = rules.max_bytes * self._ms_per_byte
        self._length_cut = Cut.MAX_BYTES if by_size_ms < rules.max_duration_ms else Cut.MAX_DURATION
        longest_ms = min(rules.max_duration_ms, by_size_ms)
        speech = msgspec.structs.replace(speech, max_ms=longest_ms)
        self._cutter = Cutter(detector.frame_bytes, sample_rate, speech, goes_on=goes_on)
        self._pause_seconds = rules.pause_ms / 1000
        self._speech_pause_ms = speech.pause_ms
        self._suspended_at: float | None = None

        # Chunks in the order of their numbers.
        self._next_seq = next_seq
        self._highest_seq = next_seq
        self._early = EarlyChunks()
        self._early_finals: set[int] = set()
        self._gap_until: float | None = None
        """When the chunks that are missing now are given up."""
        self._left_out: deque[range] = deque(maxlen=REMEMBERED_GAPS)
        self._missing = 0
        self._silent_at = float("-inf")
        """When the pause of a client that sends nothing more ends what was said. A chunk was spoken
        before it was sent, so the next is not due before it could be spoken, too."""
        self._last_chunk_bytes = 0

        # Samples on their way through the detector.
        self._queue: deque[_Chunk | bytes | Cut] = deque()
        """For a slow detector: chunks with their samples, and the ends between them."""
        self._queued_bytes = 0
        self._judging = False
        self._has_ended = True
        """Nothing came since the last end."""
        self._fed_bytes = 0
        self._listens_at_byte = 0
        """Until so much was fed, nothing need be judged."""
        self._skip_bytes = skip_bytes
        self._chunks: deque[_Chunk] = deque()
        """Those that hold what the cutter holds."""

    # --- what the session asks ------------------------------------------------------------------

    @property
    def next_chunk_seq(self) -> int:
        """The first chunk that may hold something of an utterance that was not returned yet."""
        return self._place(self._cutter.undecided_byte)[0]

    @property
    def place(self) -> bytes:
        """What a record keeps beside `next_chunk_seq`: how much of that chunk is not needed."""
        return _PLACE.pack(self._place(self._cutter.undecided_byte)[1])

    @property
    def is_open(self) -> bool:
        """Whether `append` may take the next chunks, until one is pushed."""
        return not (
            not self._is_quick
            or self._queue
            or self._judging
            or self._early.count
            or self._gap_until is not None
            or self._skip_bytes
        )

    @property
    def has_begun(self) -> bool:
        """Whether an utterance is being spoken."""
        return self._cutter.is_speaking

    @property
    def buffered_bytes(self) -> int:
        """The memory held by audio that is in no segment yet."""
        chunks = len(self._chunks) + len(self._queue) + self._early.count
        return (
            self._cutter.held_bytes
            + self._queued_bytes
            + self._early.size_bytes
            + chunks * CHUNK_OVERHEAD_BYTES
        )

    @property
    def deadline(self) -> float | None:
        """When ``due`` must be called; None while nothing can become due by time alone."""
        if self._suspended_at is not None:
            return None
        if self._gap_until is not None:
            return self._gap_until
        if self._early.count or self._is_unfinished:
            return self._silent_at
        return None

    @property
    def _is_unfinished(self) -> bool:
        """Whether an end would make an utterance, as far as is known."""
        return not self._has_ended and (
            self._cutter.is_speaking or self._judging or bool(self._queue)
        )

    # --- what comes in --------------------------------------------------------------------------

    def append(self, seq: int, payload: bytes, now: float) -> bool:
        """Take a chunk by which speech, or silence, only goes on; nearly every one is like that.

        Only while `is_open`. False: it is to be pushed. What was heard in it meanwhile comes from
        that `push`.
        """
        size = len(payload)
        if seq != self._next_seq or now >= self._silent_at or not 0 < size <= _JUDGED_AT_ONCE_BYTES:
            return False
        self._next_seq = seq + 1
        self._silent_at = now + self._pause_seconds + size * self._seconds_per_byte
        self._has_ended = False
        self._last_chunk_bytes = size
        self._chunks.append(_Chunk(seq, self._fed_bytes, 0, now))
        self._fed_bytes += size
        cutter = self._cutter
        if self._fed_bytes < self._listens_at_byte:
            cutter.waiting.append(payload)
            return True
        frames = cutter.add(payload)
        if not frames:
            return True
        was_speaking, detector = cutter.is_speaking, self.detector
        judged = detector.judge(frames)
        spoken = cutter.take(judged)
        wanted = 1
        if judged[-1] > 0 or not cutter.is_speaking:
            # But within a pause, so that the utterance does not end later than it could.
            wanted += detector.passed_over
        self._listens_at_byte = self._fed_bytes + wanted * detector.frame_bytes
        if cutter.waiting:
            self._listens_at_byte -= len(cutter.waiting[0])
        if not spoken and cutter.is_speaking is was_speaking:
            if not was_speaking:
                self._forget_chunks()
            return True
        self._appended = seq, self._segments(spoken)
        self.has_begun_now = not was_speaking
        return False

    def push(self, seq: int, payload: bytes, is_final: bool, now: float) -> list[Segment]:
        """Take a chunk; the utterances that end by it, or ended by the time it came."""
        appended, self._appended = self._appended, None
        if appended is not None and appended[0] == seq:
            return appended[1]
        had_begun = self.has_begun
        segments = self._push_any(seq, payload, is_final, now)
        self.has_begun_now = not had_begun and (bool(segments) or self.has_begun)
        return segments

    def due(self, now: float) -> list[Segment]:
        """The utterances that have ended because time passed."""
        segments: list[Segment] = []
        while (deadline := self.deadline) is not None and deadline <= now:
            if self._gap_until is not None:
                self._leave_out_gap()
                segments += self._advance(deadline)
            elif self._early.count:
                self._gap_until = deadline + self._rules.hangover_seconds(Cut.PAUSE)
            else:
                segments += self._end(Cut.PAUSE)
        return segments

    def close(self, now: float) -> list[Segment]:
        """All that is left, without waiting for missing chunks. Of a slow detector more may come
        from `judged`."""
        segments = self.due(now)
        while self._early.count:
            self._leave_out_gap()
            segments += self._advance(now)
        return segments + self._end(Cut.CLOSE)

    def suspend(self, now: float) -> None:
        """The client is gone: its silence is no pause, and what is missing cannot come."""
        if self._suspended_at is None:
            self._suspended_at = now

    def resume(self, now: float) -> None:
        """The client is back, and sends again what is missing."""
        if self._suspended_at is None:
            return
        self._silent_at += now - self._suspended_at
        self._suspended_at = None
        if self._gap_until is not None:
            self._gap_until = now + self._rules.hangover_seconds(Cut.FINAL)

    # --- slow detectors -------------------------------------------------------------------------

    @property
    def has_unjudged(self) -> bool:
        """Whether a slow detector has something left to do."""
        return self._judging or bool(self._queue)

    def unjudged(self) -> bytes | None:
        """The frames that the detector judges next, perhaps none; None when nothing is left.

        `judged` is called with the answer, before the next are asked for.
        """
        queue = self._queue
        if not queue:
            return None
        frames: list[bytes] = []
        size_bytes = 0
        while queue and not isinstance(queue[0], Cut):
            one = queue[0]
            if isinstance(one, _Chunk):
                self._chunks.append(one)
            elif size_bytes and size_bytes + len(one) > _JUDGED_AT_ONCE_BYTES:
                break
            else:
                frames.append(self._cutter.add(one))
                size_bytes += len(one)
            queue.popleft()
        self._queued_bytes -= size_bytes
        self._judging = True
        return b"".join(frames)

    def judged(self, judgements: Sequence[Judgement]) -> list[Segment]:
        """The utterances that end with the frames that were judged, or right after them."""
        self._judging = False
        segments = self._segments(self._cutter.take(judgements))
        while self._queue and isinstance(self._queue[0], Cut):
            cut = self._queue.popleft()
            assert isinstance(cut, Cut)
            segments += self._finish(cut)
        return segments

    # --- in the order of their numbers ----------------------------------------------------------

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
            self._silent_at = now + self._pause_seconds + len(payload) * self._seconds_per_byte
        if is_final:
            self._early_finals.add(seq)
        self._early.hold(seq, payload, len(payload) * self._ms_per_byte)
        segments += self._advance(now)
        return segments

    def _advance(self, now: float) -> list[Segment]:
        """Take every chunk whose turn has come; then see how long a missing one is waited for."""
        segments: list[Segment] = []
        while self._early.first_seq == self._next_seq:
            seq = self._next_seq
            payload = self._early.take_first()
            self._next_seq = seq + 1
            if payload:
                segments += self._hear(seq, payload, now)
            if seq in self._early_finals:
                self._early_finals.discard(seq)
                segments += self._end(Cut.FINAL)
        if not self._early.count:
            self._gap_until = None
        elif self._gap_until is None and self._early_finals:
            self._gap_until = now + self._rules.hangover_seconds(Cut.FINAL)
        elif self._gap_until is None and self._early.duration_ms >= self._speech_pause_ms:
            # What is held back may have a pause in it.
            self._gap_until = now + self._rules.hangover_seconds(Cut.PAUSE)
        return segments

    def _leave_out_gap(self) -> None:
        """Go on without the chunks that are missing before the first that is there."""
        gap_end_seq = self._early.first_seq
        assert gap_end_seq is not None, "a gap lies below a chunk that came"
        missing = gap_end_seq - self._next_seq
        self._left_out.append(range(self._next_seq, gap_end_seq))
        self._next_seq = gap_end_seq
        self._gap_until = None
        if not missing:
            return
        self._missing += missing
        # Go on with a whole sample: lost chunks are taken to be as long as the last one.
        half_bytes = (self._cutter.held_bytes + self._queued_bytes) % SAMPLE_BYTES
        lost_bytes = missing * self._last_chunk_bytes
        self._skip_bytes = (self._skip_bytes + half_bytes - lost_bytes) % SAMPLE_BYTES
        if half_bytes:
            half = bytes(half_bytes)
            (self._feed if self._is_quick and not self.has_unjudged else self._wait_with)(half)

    # --- through the detector -------------------------------------------------------------------

    def _hear(self, seq: int, payload: bytes, now: float) -> list[Segment]:
        """Samples, in order. They are judged at once, but not by a slow detector, nor when it is
        much, nor before what came earlier."""
        self._has_ended = False
        self._last_chunk_bytes = len(payload)
        skipped = 0
        if self._skip_bytes:
            skipped = min(self._skip_bytes, len(payload))
            self._skip_bytes -= skipped
            payload = payload[skipped:]
        chunk = _Chunk(seq, self._fed_bytes, skipped, now)
        if (
            self._queue
            or self._judging
            or not self._is_quick
            or len(payload) > _JUDGED_AT_ONCE_BYTES
        ):
            self._queue.append(chunk)
            return self._wait_with(payload)
        self._chunks.append(chunk)
        return self._feed(payload)

    def _wait_with(self, samples: bytes) -> list[Segment]:
        """Leave samples for `unjudged`, in pieces that take a detector little time."""
        for at in range(0, len(samples), _JUDGED_AT_ONCE_BYTES):
            self._queue.append(samples[at : at + _JUDGED_AT_ONCE_BYTES])
        self._fed_bytes += len(samples)
        self._queued_bytes += len(samples)
        return []

    def _feed(self, samples: bytes) -> list[Segment]:
        self._fed_bytes += len(samples)
        frames = self._cutter.add(samples)
        if not frames:
            return []
        return self._segments(self._cutter.take(self.detector.judge(frames)))

    def _end(self, cut: Cut) -> list[Segment]:
        """The speaker is done, or no more comes: what was said so far is an utterance."""
        self._has_ended = True
        if self.has_unjudged:
            self._queue.append(cut)
            return []
        return self._finish(cut)

    def _finish(self, cut: Cut) -> list[Segment]:
        segments: list[Segment] = []
        if frames := self._cutter.add(b""):
            segments = self._segments(self._cutter.take(self.detector.judge(frames)))
        spoken = self._cutter.finish(drop_half=cut is Cut.FINAL)
        self.detector.reset()
        if spoken is not None:
            return segments + self._segments([spoken], cut)
        if cut is Cut.FINAL and not segments:
            self.ignored["empty_final"] += 1
        self._forget_chunks()
        return segments

    def _segments(self, spoken: list[Spoken], cut: Cut = Cut.PAUSE) -> list[Segment]:
        segments = [self._segment(one, cut) for one in spoken]
        self._forget_chunks()
        return segments

    def _segment(self, spoken: Spoken, cut: Cut) -> Segment:
        if spoken.end is SpokenEnd.LENGTH:
            cut = self._length_cut
        first = self._chunk_of(spoken.start_byte)
        next_seq, offset = self._place(spoken.end_byte)
        missing, self._missing = self._missing, 0
        return Segment(
            first.seq,
            next_seq,
            (spoken.samples,),
            cut,
            missing,
            len(spoken.samples) * self._ms_per_byte,
            began=first.arrived,
            speech_ended=self._chunk_of(max(0, spoken.speech_end_byte - 1)).arrived,
            place=_PLACE.pack(offset) + (_GOES_ON if spoken.end is SpokenEnd.LENGTH else b""),
        )

    # --- from samples to chunks -----------------------------------------------------------------

    def _chunk_of(self, at_byte: int) -> _Chunk:
        """The chunk that a place is in."""
        found = self._chunks[0]
        for chunk in self._chunks:
            if chunk.start_byte > at_byte:
                break
            found = chunk
        return found

    def _place(self, at_byte: int) -> tuple[int, int]:
        """The chunk that a place is in and how far, or the next one where all chunks end there."""
        goes_on = bool(self._queue) and isinstance(self._queue[0], bytes)
        if self._chunks and (goes_on or at_byte < self._fed_bytes - self._queued_bytes):
            chunk = self._chunk_of(at_byte)
            return chunk.seq, at_byte - chunk.start_byte + chunk.skipped_bytes
        waiting = next((one for one in self._queue if isinstance(one, _Chunk)), None)
        if waiting is not None:
            return waiting.seq, waiting.skipped_bytes
        return self._next_seq, self._skip_bytes

    def _forget_chunks(self) -> None:
        """Let go of chunks that hold nothing the cutter holds."""
        chunks = self._chunks
        if len(chunks) > 1:
            at_byte = self._cutter.undecided_byte
            while len(chunks) > 1 and chunks[1].start_byte <= at_byte:
                chunks.popleft()
