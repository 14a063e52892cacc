"""The way in: what a client says becomes utterances, numbered in the order they were spoken."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman import errors
from dragoman.live.ledger import JobInput
from dragoman.live.protocol import (
    AudioChunk,
    Cut,
    ErrorInfo,
    UiEventName,
    Utterance,
    check_in_session,
    check_utterance,
)
from dragoman.live.sessions.arrivals import Arrivals
from dragoman.live.sessions.audio import WholeSamples, make_meter
from dragoman.live.sessions.departures import Departures
from dragoman.live.sessions.orders import Speech, refused_utterance, targets_of, whole_utterance
from dragoman.live.sessions.record import SessionRecord
from dragoman.live.sessions.segmenter import Segment, Segmenter
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.timeline import Timeline
from dragoman.live.sessions.tools import Tools


class Intake:
    """Takes in a session's audio chunks, or its whole utterances: never both."""

    def __init__(
        self,
        record: SessionRecord,
        tools: Tools,
        departures: Departures,
        arrivals: Arrivals,
        timeline: Timeline | None,
        spans: Spans | None,
    ) -> None:
        self.next_index = record.next_utterance_index
        self._init = record.init
        self._tools = tools
        self._departures = departures
        self._arrivals = arrivals
        self._timeline = timeline
        self._spans = spans
        self._targets = targets_of(record.init)
        self._meter = make_meter(record.init.audio_format, record.init.sample_rate)
        self._samples = WholeSamples(self._meter, record.half_sample)
        self._segmenter: Segmenter | None = None
        if record.next_chunk_seq:
            self._segmenter = self._new_segmenter(record.next_chunk_seq)
        self._by_utterance = bool(self.next_index) and self._segmenter is None
        self._began = 0.0
        """When the utterance that is being spoken began."""

    @property
    def buffered_bytes(self) -> int:
        """Of audio that is in no utterance yet."""
        return self._segmenter.buffered_bytes if self._segmenter is not None else 0

    @property
    def deadline(self) -> float | None:
        """When ``due`` must be called; None while nothing can become due by time alone."""
        return self._segmenter.deadline if self._segmenter is not None else None

    # --- what comes ------------------------------------------------------------------------------

    async def audio(self, chunk: AudioChunk) -> bool:
        """A piece of audio, to be cut into utterances; whether it ended any."""
        if self._by_utterance:
            raise errors.InvalidMessage(
                "This session sends whole utterances; audio_chunk and utterance do not mix."
            )
        segmenter = self._segmenter
        if segmenter is None:
            segmenter = self._segmenter = self._new_segmenter(0)
        now = self._now()
        begins = not segmenter.buffered_bytes
        if begins:
            self._began = now
        segments = segmenter.push(chunk.seq, chunk.payload, chunk.is_final, now)
        if begins and self._timeline is not None and chunk.payload:
            self._timeline.tell(self.next_index, UiEventName.INPUT_STARTED)
        if segments or segmenter.ignored:
            await self._cut(segmenter, segments)
        if self._spans is not None and segmenter.buffered_bytes:
            self._spans.heard(self.next_index)
        return bool(segments)

    async def utterance(self, message: Utterance) -> bool:
        """A whole utterance; False for one that came before."""
        if self._segmenter is not None:
            raise errors.InvalidMessage(
                "This session sends audio chunks; utterance and audio_chunk do not mix."
            )
        index = message.utterance_index
        if index < self.next_index:
            return False
        if index > self.next_index:
            raise errors.InvalidMessage(
                f"utterance_index {index} came where {self.next_index} is next; "
                "send them next after next."
            )
        self._by_utterance = True
        self.next_index += 1
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.INPUT_ENDED)
        try:
            self._check(message)
        except errors.DragomanError as error:
            info = ErrorInfo(error.code, error.message, details=error.details or None)
            self._departures.add(refused_utterance(self._init, message, info))
        else:
            self._departures.add(whole_utterance(self._init, message))
        await self._departures.go()
        return True

    # --- time and connections --------------------------------------------------------------------

    async def due(self) -> bool:
        """Cut what has become due; whether anything had."""
        if self._segmenter is None:
            return False
        segments = self._segmenter.due(self._now())
        await self._cut(self._segmenter, segments)
        return bool(segments)

    async def close(self) -> None:
        """The speaker is done: the last cut is made."""
        if self._segmenter is not None:
            await self._cut(self._segmenter, self._segmenter.close(self._now()))

    def suspend(self) -> None:
        """The client is away: the pause clock stands."""
        if self._segmenter is not None:
            self._segmenter.suspend(self._now())

    def resume(self) -> None:
        """The client is back."""
        if self._segmenter is not None:
            self._segmenter.resume(self._now())

    # --- inside ----------------------------------------------------------------------------------

    async def _cut(self, segmenter: Segmenter, segments: Sequence[Segment]) -> None:
        """Utterances are complete. They get their numbers before anything else can happen."""
        for segment in segments:
            audio = self._samples.join(segment.chunks, segment.gaps)
            if not audio:  # half a sample
                if segment.cut is Cut.FINAL:
                    self._samples.drop_half()
                    segmenter.ignored["empty_final"] += 1
                continue  # after any other cut it begins the next utterance
            self._tools.metrics.web_task_finalized.labels(segment.cut.value).inc()
            speech = Speech(
                self.next_index,
                self._targets,
                JobInput(audio=audio),
                cut=segment.cut,
                began=self._began,
                next_chunk_seq=segment.next_seq,
                half_sample=self._samples.half,
            )
            self._began = self._now()
            self.next_index += 1
            if self._timeline is not None:
                self._timeline.tell(speech.index, UiEventName.INPUT_ENDED)
            self._departures.add(speech)
        for reason, count in segmenter.ignored.items():
            self._tools.metrics.audio_ignored.labels(reason).inc(count)
        segmenter.ignored.clear()
        if segments and segmenter.buffered_bytes and self._timeline is not None:
            self._timeline.tell(self.next_index, UiEventName.INPUT_STARTED)
        if segments:
            await self._departures.go()

    def _check(self, message: Utterance) -> None:
        """Refuse an utterance that makes no sense, or that is too much now."""
        check_utterance(message)
        check_in_session(self._init, message)
        if self._arrivals.in_flight >= self._tools.rules.max_inflight:
            raise errors.RateLimited(
                "The session has as many utterances in flight as it may; wait for results."
            )
        size = len(message.audio or b"") + len(message.text or "")
        if not self._tools.budget.has_room(size):
            raise errors.RateLimited("The server keeps as much as it may; wait for results.")

    def _new_segmenter(self, next_seq: int) -> Segmenter:
        rules = self._tools.rules.segments
        # The half sample that an utterance may begin with must not take it past the limit.
        sample_bytes = self._meter.sample_bytes
        whole_bytes = rules.max_bytes // sample_bytes * sample_bytes
        rules = msgspec.structs.replace(rules, max_bytes=max(sample_bytes, whole_bytes))
        return Segmenter(rules, self._meter, next_seq)

    def _now(self) -> float:
        return self._tools.clock.monotonic()
