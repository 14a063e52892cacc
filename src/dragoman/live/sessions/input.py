"""Speech on its way in: chunks of audio are gathered until they are cut into utterances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, Protocol

import msgspec

from dragoman.clock import Clock
from dragoman.live.protocol import AudioChunk, Cut, SessionInit
from dragoman.live.sessions.audio import WholeSamples, make_meter
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.segmenter import CHUNK_OVERHEAD_BYTES, Segment, Segmenter
from dragoman.live.sessions.voice import (
    VoiceSegmenter,
    has_voice_activity,
    judge_in_thread,
    voice_segmenter,
)
from dragoman.observability import Metrics
from dragoman.voice_activity import Judgement

_BUDGET_STEP_BYTES = 8_192
"""Audio that is being spoken is charged to the process's budget in steps of so much."""


class SpokenUtterance(msgspec.Struct, frozen=True, gc=False):
    """An utterance that was cut out of the audio."""

    audio: bytes
    cut: Cut
    began: float
    """When its first audio came, in monotonic seconds."""
    speech_ended: float | None
    next_chunk_seq: int
    """The first chunk after it."""
    place: bytes
    """Where in that chunk the next utterance begins; the half sample that it begins with."""


class InputOwner(Protocol):
    """A session, as its input knows it."""

    def takes_audio(self) -> bool:
        """Whether audio counts now; raises where it must not come at all."""
        ...

    def speech_began(self) -> None:
        """Audio of the next utterance is there."""
        ...

    def spoken(self, utterances: Sequence[SpokenUtterance], *, goes_on: bool, now: float) -> None:
        """Utterances are complete, the oldest first; goes_on: the next one has begun."""
        ...

    def charge(self) -> bool:
        """Charge the process's budget for what is kept; False when it is too much."""
        ...

    def check_kept(self) -> None:
        """Charge it, and cut off a client that sends more than can be kept."""
        ...

    def judged(self) -> None:
        """A slow detector has judged all that came in."""
        ...


class SpeechInput:
    """The audio of one session that is in no utterance yet."""

    def __init__(
        self,
        init: SessionInit,
        rules: SessionRules,
        metrics: Metrics,
        clock: Clock,
        run: Callable[[Coroutine[Any, Any, None]], None],
        owner: InputOwner,
    ) -> None:
        """run has a coroutine run beside."""
        self._init = init
        self._rules = rules
        self._metrics = metrics
        self._clock = clock
        self._run = run
        self._owner = owner
        self._meter = make_meter(init.audio_format, init.sample_rate)
        self._samples = WholeSamples(self._meter, b"")
        self.segmenter: Segmenter | VoiceSegmenter | None = None
        self._has_voice_activity = has_voice_activity(init)
        self._goes_on = False
        """The next chunk in order goes on with an utterance that has begun."""
        self._uncharged_bytes = 0
        """Audio that came since the budget was charged."""
        self._began = 0.0
        """When the utterance that is being spoken began."""
        self.is_judging = False
        """A slow detector is at work on what came in."""
        self._is_over = False
        self._cuts_by_time = True
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf

    def go_on_from(self, next_chunk_seq: int, place: bytes) -> None:
        """Begin where a record ends."""
        if not self._has_voice_activity:
            self._samples = WholeSamples(self._meter, place)
        # With voice activity the first utterances may all be of one chunk, which is the next still.
        if next_chunk_seq or (self._has_voice_activity and place):
            self.segmenter = self._new_segmenter(next_chunk_seq, place)

    @property
    def has_come(self) -> bool:
        """Whether there was ever any audio."""
        return self.segmenter is not None

    @property
    def has_begun(self) -> bool:
        """Whether an utterance is being spoken."""
        return self.segmenter is not None and self.segmenter.has_begun

    @property
    def silent_until(self) -> tuple[int, bytes] | None:
        """With voice activity: the first chunk, and the place in it, with something to say."""
        segmenter = self.segmenter
        if not isinstance(segmenter, VoiceSegmenter):
            return None
        return segmenter.next_chunk_seq, segmenter.place

    # --- chunks ---------------------------------------------------------------------------------

    def audio(self, chunk: AudioChunk, now: float) -> None:
        """A piece of audio, to be cut into utterances."""
        if self._goes_on and not chunk.is_final:
            segmenter = self.segmenter
            if segmenter is not None and segmenter.append(chunk.seq, chunk.payload, now):
                # Nearly every chunk is like this. What it takes is charged some chunks at a time.
                self._uncharged_bytes += len(chunk.payload) + CHUNK_OVERHEAD_BYTES
                if self._uncharged_bytes >= _BUDGET_STEP_BYTES:
                    self._charge()
                return
        if self._owner.takes_audio():
            self._take(chunk, now)

    def _take(self, chunk: AudioChunk, now: float) -> None:
        """A chunk that begins or ends something, or that came out of turn."""
        segmenter = self.segmenter
        if segmenter is None:
            segmenter = self.segmenter = self._new_segmenter()
        if isinstance(segmenter, VoiceSegmenter):
            self._listen(segmenter, chunk, now)
            return
        begins = not segmenter.buffered_bytes
        if begins:
            self._began = now
        segments = segmenter.push(chunk.seq, chunk.payload, chunk.is_final, now)
        if begins and chunk.payload:
            self._owner.speech_began()
        self._cut(segmenter, segments, now)
        self._charge()
        self._goes_on = segmenter.is_open
        self._arm()

    def _listen(self, segmenter: VoiceSegmenter, chunk: AudioChunk, now: float) -> None:
        """A chunk with which speech begins or ends, or that came out of turn."""
        segments = segmenter.push(chunk.seq, chunk.payload, chunk.is_final, now)
        if segmenter.has_begun_now:
            self._owner.speech_began()
        if segments or segmenter.ignored:
            self._cut(segmenter, segments, now)
        self._uncharged_bytes += len(chunk.payload) + CHUNK_OVERHEAD_BYTES
        if segments or self._uncharged_bytes >= _BUDGET_STEP_BYTES:
            self._charge()
        if segmenter.has_unjudged:
            self._have_judged(segmenter)
        self._goes_on = segmenter.is_open
        self._arm()

    def _have_judged(self, segmenter: VoiceSegmenter) -> None:
        """Let a slow detector judge what came in, away from the event loop."""
        if not self.is_judging:
            self.is_judging = True
            self._run(self._judge(segmenter))

    async def _judge(self, segmenter: VoiceSegmenter) -> None:
        try:
            while (frames := segmenter.unjudged()) is not None:
                judgements: Sequence[Judgement] = ()
                if frames:
                    judgements = await judge_in_thread(segmenter.detector, frames)
                if self._is_over:
                    return
                had_begun, now = segmenter.has_begun, self._clock.monotonic()
                segments = segmenter.judged(judgements)
                if not had_begun and (segments or segmenter.has_begun):
                    self._owner.speech_began()
                self._cut(segmenter, segments, now)
                self._owner.charge()
                self._arm()
        finally:
            self.is_judging = False
        self._owner.judged()

    def _charge(self) -> None:
        self._uncharged_bytes = 0
        self._owner.check_kept()

    # --- cutting --------------------------------------------------------------------------------

    def _cut(
        self, segmenter: Segmenter | VoiceSegmenter, segments: Sequence[Segment], now: float
    ) -> None:
        """Hand over what is complete."""
        self._goes_on = False
        utterances: list[SpokenUtterance] = []
        for segment in segments:
            audio = self._samples.join(segment.chunks, segment.gaps)
            if not audio:  # half a sample
                if segment.cut is Cut.FINAL:
                    self._samples.drop_half()
                    segmenter.ignored["empty_final"] += 1
                continue  # after any other cut it begins the next utterance
            self._metrics.web_task_finalized.labels(segment.cut.value).inc()
            utterances.append(
                SpokenUtterance(
                    audio,
                    segment.cut,
                    self._began if segment.began is None else segment.began,
                    segment.speech_ended,
                    segment.next_seq,
                    segment.place or self._samples.half,
                )
            )
            self._began = now
        for reason, count in segmenter.ignored.items():
            self._metrics.audio_ignored.labels(reason).inc(count)
        segmenter.ignored.clear()
        if segments:
            self._owner.spoken(utterances, goes_on=segmenter.has_begun, now=now)

    def cut_rest(self) -> None:
        """Nothing more comes: what is there is an utterance."""
        self._goes_on = False
        segmenter = self.segmenter
        if segmenter is None:
            return
        now = self._clock.monotonic()
        self._cut(segmenter, segmenter.close(now), now)
        if isinstance(segmenter, VoiceSegmenter) and segmenter.has_unjudged:
            self._have_judged(segmenter)

    def _new_segmenter(self, next_seq: int = 0, place: bytes = b"") -> Segmenter | VoiceSegmenter:
        rules = self._rules.segments
        if self._has_voice_activity:
            return voice_segmenter(self._init, self._rules.voice, rules, next_seq, place)
        # The half sample that an utterance may begin with must not take it past the limit.
        sample_bytes = self._meter.sample_bytes
        whole_bytes = rules.max_bytes // sample_bytes * sample_bytes
        rules = msgspec.structs.replace(rules, max_bytes=max(sample_bytes, whole_bytes))
        return Segmenter(rules, self._meter, next_seq)

    # --- time -----------------------------------------------------------------------------------

    def suspend(self) -> None:
        """The client is away: pauses do not count."""
        self._goes_on = False
        if self.segmenter is not None:
            self.segmenter.suspend(self._clock.monotonic())

    def resume(self) -> None:
        """The client is back."""
        if self.segmenter is not None:
            self.segmenter.resume(self._clock.monotonic())
        self._arm()

    def stop(self) -> None:
        """Cut nothing more."""
        self._is_over = True
        self.drain()

    def drain(self) -> None:
        """Cut nothing more but what a slow detector is at work on."""
        self._cuts_by_time = False
        self._goes_on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Wake when a pause or a gap in the audio ends. A time that moves later costs nothing."""
        segmenter = self.segmenter
        if segmenter is None or not self._cuts_by_time:
            return
        at = segmenter.deadline
        if at is None or at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
        self._timer_at = at

    def _wake(self) -> None:
        self._timer = None
        self._timer_at = inf
        segmenter = self.segmenter
        if segmenter is None:
            return
        now = self._clock.monotonic()
        segments = segmenter.due(now)
        if segments or segmenter.ignored:
            self._cut(segmenter, segments, now)
            self._owner.charge()
        self._arm()
