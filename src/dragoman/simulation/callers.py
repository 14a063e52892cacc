"""Who asks a simulated fleet for work: speakers in sessions, and callers of `POST /jobs`."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError
from dragoman.ids import RequestId, TenantId
from dragoman.live.dispatch import Job, JobOrder
from dragoman.live.gateway import DirectLink, WireClosed
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import (
    ClientHeartbeat,
    JobClass,
    MissingResult,
    Outcome,
    Pipeline,
    SchedulerToClient,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    Utterance,
)
from dragoman.simulation.fleet_nodes import LIE
from dragoman.simulation.scenario import InputKind, Traffic, TrafficKind
from dragoman.testing import MemoryScheduler

if TYPE_CHECKING:
    from dragoman.simulation.world import World

_PCM_BYTES_PER_MS = 32
_STEP_MS = 100
_LONGEST_MS = 60_000
_RETRY_SECONDS = 1.0
_GAPS_TO_CHOOSE_FROM = 16
CONNECTION_LOST = "CONNECTION_LOST"
"""The reason noted for a job whose caller lost the instance it had asked."""
NO_END = "NO_END"
"""The reason noted for work that was never answered: a promise that was broken."""
STILL_WAITS = "STILL_WAITS"
"""The reason noted for batch work that had no slot when the scenario was over."""
TEXT = "so much for the text of an utterance"


@lru_cache(maxsize=1024)
def _silence(steps: int) -> bytes:
    return bytes(steps * _STEP_MS * _PCM_BYTES_PER_MS)


def audio_of(length_ms: float) -> bytes:
    """So much audio, in steps that many utterances share."""
    return _silence(max(1, round(min(length_ms, _LONGEST_MS) / _STEP_MS)))


class AwaitedUtterance:
    """An utterance that its speaker waits for."""

    __slots__ = ("at", "left", "message")

    def __init__(self, at: float, message: Utterance, left: set[str]) -> None:
        self.at = at
        self.message = message
        self.left = left
        """The targets that have no end yet."""


class Speaker:
    """One session: it speaks, pauses, speaks, and goes on over a new connection if it must."""

    def __init__(self, number: int, traffic: Traffic, stream: int, world: World) -> None:
        self.random = Random(f"{world.seed}/{traffic.name}/{number}")
        self._traffic = traffic
        self._streams = {target: stream + i for i, target in enumerate(traffic.tgt_langs)}
        self._world = world
        self._loop = world.loop
        self._link: DirectLink[SchedulerToClient] | None = None
        self._is_open = False
        self._closing = False
        self._resume_token: str | None = None
        self._seq = 0
        self._next_index = 0
        self._open: dict[int, AwaitedUtterance] = {}
        self._said_again: set[int] = set()
        """Utterances of an earlier session, some of whose targets may have had their end in it."""
        self._is_hushed = False
        self._pulse: asyncio.TimerHandle | None = None
        self._is_speech = traffic.input is InputKind.SPEECH

    @property
    def waits(self) -> bool:
        """Whether it has asked for something that has no end."""
        return bool(self._open)

    def start(self) -> None:
        """Connect, and begin to speak."""
        self._connect()
        self._loop.defer(self._first_seconds(), self._speak)

    def hush(self) -> None:
        """Say nothing more; what was said is still waited for."""
        self._is_hushed = True

    def close(self) -> None:
        """The conversation is over, once its last results are there."""
        self.hush()
        self._closing = True
        if self._is_open and self._link is not None:
            self._link.say(SessionClose())

    # --- the connection --------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._world.closed:
            return
        instance = self._world.any_instance(self.random)
        if instance is None:
            self._connect_later()
            return
        traffic = self._traffic
        link: DirectLink[SchedulerToClient]
        link = instance.network.connect_directly(
            instance.plane.session_endpoint, self._hear, lambda end: self._ended(link, end)
        )
        self._link = link
        link.say(
            SessionInit(
                src_lang=traffic.src_lang,
                tgt_langs=traffic.tgt_langs,
                tenant_id=TenantId(traffic.tenant),
                resume_token=self._resume_token,
                last_delivery_seq=self._seq,
            )
        )

    def _connect_later(self) -> None:
        self._loop.call_later(_RETRY_SECONDS * (0.5 + self.random.random()), self._connect)

    def _ended(self, link: DirectLink[SchedulerToClient], end: WireClosed) -> None:
        if link is not self._link:
            return
        was_open, self._is_open, self._link = self._is_open, False, None
        if self._pulse is not None:
            self._pulse.cancel()
        if self._closing and not self._open:
            self._world.session_is_over(self)
            return
        if not was_open:
            self._world.recorder.sessions_refused += 1
        self._connect_later()

    def _hear(self, message: SchedulerToClient) -> None:
        if type(message) is TranslationResult:
            self._seq = message.delivery_seq
            asked = self._open.get(message.utterance_index)
            if asked is not None and message.tgt_lang in asked.left:
                self._served(asked, message)
                self._take_off(message.utterance_index, asked, message.tgt_lang)
            else:
                self._has_ended(message.utterance_index)
        elif isinstance(message, MissingResult):
            self._missing(message)
        elif isinstance(message, SessionInitAck):
            self._loop.call_soon(self._opened, message, self._link)
        elif isinstance(message, SessionCloseAck):
            if self._open:
                name = self._traffic.name
                self._world.broke(f"a session of {name} was closed before its results were sent")
            self._open.clear()

    def _opened(self, ack: SessionInitAck, link: DirectLink[SchedulerToClient] | None) -> None:
        if link is None or link is not self._link:
            return
        self._is_open = True
        self._world.recorder.sessions_opened += 1
        self._resume_token = ack.resume_token
        if not ack.resumed:
            self._begin_anew()
        for index in sorted(self._open):
            if index >= ack.next_utterance_index:
                link.say(self._open[index].message)
        interval = ack.heartbeat_interval_ms / 1000
        self._pulse = self._loop.call_later(interval, self._beat, link, interval)
        if self._closing:
            link.say(SessionClose())

    def _begin_anew(self) -> None:
        """The session is a new one: what has no end is said again, under new numbers."""
        self._seq = 0
        asked = [self._open[index] for index in sorted(self._open)]
        self._open = {}
        for index, one in enumerate(asked):
            one.message = self._utterance(index, one.message.audio)
            self._open[index] = one
        self._next_index = len(asked)
        self._said_again = set(self._open)

    def _beat(self, link: DirectLink[SchedulerToClient], interval: float) -> None:
        if link is self._link and not self._world.closed:
            link.say(ClientHeartbeat(self._seq))
            self._pulse = self._loop.call_later(interval, self._beat, link, interval)

    # --- speaking --------------------------------------------------------------------------------

    def _gap_seconds(self) -> float:
        """From the end of one utterance to the end of the next."""
        traffic = self._traffic
        return (traffic.pause_ms.draw(self.random) + traffic.utterance_ms.draw(self.random)) / 1000

    def _first_seconds(self) -> float:
        """Until it speaks first, as if its conversation had gone on before the scenario began.

        At any moment a conversation is more often in one of its long gaps than in a short one; so
        of several gaps one is drawn by its length, of which some part is over.
        """
        gaps = [self._gap_seconds() for _ in range(_GAPS_TO_CHOOSE_FROM)]
        if not any(gaps):
            return 0.0
        return self.random.choices(gaps, weights=gaps)[0] * self.random.random()

    def _speak(self) -> None:
        if self._is_hushed:
            return
        traffic, random = self._traffic, self.random
        length_ms = traffic.utterance_ms.draw(random)
        message = self._utterance(
            self._next_index, audio_of(length_ms) if self._is_speech else None
        )
        self._open[self._next_index] = AwaitedUtterance(
            self._loop.time(), message, set(self._streams)
        )
        self._next_index += 1
        if self._is_open and self._link is not None:
            self._link.say(message)
        gap_ms = length_ms + traffic.pause_ms.draw(random)
        self._loop.defer(gap_ms / 1000, self._speak)

    def _utterance(self, index: int, audio: bytes | None) -> Utterance:
        if audio is not None:
            return Utterance(index, audio=audio)
        return Utterance(index, text=TEXT)

    def _served(self, asked: AwaitedUtterance, result: TranslationResult) -> None:
        world = self._world
        if result.text_translated == LIE:
            world.broke(f"{result.request_id} was answered by a node that did not have it")
        # Both ways over the speaker's own line, which costs no timer of its own.
        way_ms = 2000 * world.way_seconds(self.random)
        scheduling = result.scheduling
        world.recorder.served(
            self._streams[result.tgt_lang],
            asked.at,
            scheduling.queued_ms,
            (self._loop.time() - asked.at) * 1000 + way_ms,
            scheduling.attempts,
        )

    def _missing(self, message: MissingResult) -> None:
        self._seq = message.delivery_seq
        asked = self._open.get(message.utterance_index)
        target = message.tgt_lang or next(iter(self._streams))
        if asked is None or target not in asked.left:
            self._has_ended(message.utterance_index)
            return
        self._world.recorder.unserved(self._streams[target], asked.at, message.reason)
        self._take_off(message.utterance_index, asked, target)

    def _has_ended(self, index: int) -> None:
        """An end came for what has its end already."""
        if index not in self._said_again:
            self._world.broke(f"utterance {index} of {self._traffic.name} had a second end")

    def _take_off(self, index: int, asked: AwaitedUtterance, target: str) -> None:
        asked.left.discard(target)
        if not asked.left:
            del self._open[index]

    def give_up(self) -> int:
        """The run is over: what has no end by now is counted as lost."""
        lost = 0
        for asked in self._open.values():
            for target in sorted(asked.left):
                self._world.recorder.unserved(self._streams[target], asked.at, NO_END)
                lost += 1
        self._open.clear()
        return lost


class JobCaller:
    """Asks for jobs without a session, as `POST /jobs` does."""

    def __init__(self, traffic: Traffic, stream: int, world: World) -> None:
        self.random = Random(f"{world.seed}/{traffic.name}/jobs")
        self._open: dict[RequestId, tuple[MemoryScheduler, float]] = {}
        """Jobs that have no end yet: where they were asked for, and when."""
        self._traffic = traffic
        self._stream = stream
        self._world = world
        self._loop = world.loop
        self._asked = 0
        self._is_batch = traffic.kind is TrafficKind.BATCH
        is_speech = self._is_speech = traffic.input is InputKind.SPEECH
        self._pipeline = Pipeline(
            use_asr=is_speech,
            use_semantic=False,
            use_nmt=traffic.src_lang != traffic.tgt_langs[0],
            use_tts=is_speech,
            use_tone=False,
        )

    def ask(self) -> None:
        """Ask any instance for one job."""
        world, traffic = self._world, self._traffic
        asked_at = self._loop.time()
        instance = world.any_instance(self.random)
        if instance is None:
            world.recorder.unserved(self._stream, asked_at, CONNECTION_LOST)
            return
        self._asked += 1
        spec = JobSpec(
            TenantId(traffic.tenant),
            RequestId(f"{traffic.name}-{self._asked}"),
            traffic.src_lang,
            traffic.tgt_langs[0],
            self._pipeline,
            job_class=JobClass.BATCH if self._is_batch else JobClass.LIVE,
        )
        audio = audio_of(traffic.utterance_ms.draw(self.random)) if self._is_speech else None
        order = JobOrder(
            spec, JobInput(audio, None if self._is_speech else TEXT), may_wait=traffic.waits
        )
        dispatcher = instance.plane.dispatcher
        job = dispatcher.make(order, asked_at)
        self._open[spec.request_id] = instance, asked_at

        def submitted(known: Job, refusal: DragomanError | None) -> None:
            if refusal is not None and self._open.pop(spec.request_id, None) is not None:
                world.recorder.unserved(self._stream, asked_at, refusal.code)

        def ended(known: Job) -> None:
            if self._open.pop(spec.request_id, None) is not None:
                self._ended(known, asked_at)

        job.on_submitted = submitted
        job.on_end = [ended]
        job.submitter_waits = True
        try:
            dispatcher.start(job, asked_at)
        except DragomanError as error:
            submitted(job, error)

    @property
    def waits(self) -> bool:
        """Whether a live job has no end yet; batch work may wait for ever."""
        return bool(self._open) and not self._is_batch

    def lost(self, instance: MemoryScheduler) -> None:
        """An instance died, and the callers' connections with it."""
        for request_id, (asked_of, asked_at) in list(self._open.items()):
            if asked_of is instance:
                del self._open[request_id]
                self._world.recorder.unserved(self._stream, asked_at, CONNECTION_LOST)

    def give_up(self) -> int:
        """The run is over: what has no end by now is counted as such."""
        reason = STILL_WAITS if self._is_batch else NO_END
        lost = 0 if self._is_batch else len(self._open)
        for _, asked_at in self._open.values():
            self._world.recorder.unserved(self._stream, asked_at, reason)
        self._open.clear()
        return lost

    def _ended(self, job: Job, asked_at: float) -> None:
        world = self._world
        if job.outcome is not Outcome.SUCCESS:
            code = job.error.code if job.error is not None else "INTERNAL_ERROR"
            world.recorder.unserved(self._stream, asked_at, code)
            return
        if job.output is not None and job.output.text_translated == LIE:
            world.broke(f"{job.job_id} was answered by a node that did not have it")
        way_ms = 2000 * world.way_seconds(self.random)
        world.recorder.served(
            self._stream,
            asked_at,
            (job.dispatched - job.started) * 1000,
            (self._loop.time() - asked_at) * 1000 + way_ms,
            job.used,
        )
