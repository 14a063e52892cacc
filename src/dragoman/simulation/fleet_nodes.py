"""The nodes of a simulated fleet: they take jobs, work for a while, fail and come back."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.gateway import DirectLink, WireClosed
from dragoman.live.protocol import (
    Command,
    ErrorInfo,
    Hardware,
    JobAck,
    JobAssign,
    JobCancel,
    JobResult,
    Languages,
    NodeControl,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    RunningJob,
    SchedulerToNode,
    Service,
    ServiceType,
)
from dragoman.simulation.recording import GroupUse
from dragoman.testing import CALM, service

if TYPE_CHECKING:
    from dragoman.simulation.world import World

LIE = "a lie"
"""What a lying node answers for the jobs of others."""

_PCM_BYTES_PER_SECOND = 32_000.0
_OVERLOADED = ErrorInfo("NODE_OVERLOADED", "every slot is taken")
_STOPPED = ErrorInfo("JOB_CANCELLED", "stopped as asked")
_CRASHED = ErrorInfo("MODEL_CRASHED", "the simulated model failed")
_LIES_EVERY_SECONDS = 1.0


class Work:
    """An attempt that a node works on."""

    __slots__ = ("is_stopped", "running")

    def __init__(self, running: RunningJob) -> None:
        self.running = running
        self.is_stopped = False
        """It was to be given up; its result may not have been sent yet."""


class FleetNode:
    """One node: its work goes on while its connection is gone, unless it died with it."""

    def __init__(self, name: str, use: GroupUse, world: World) -> None:
        self.node_id = NodeId(name)
        self.group = use.group
        self.random = Random(f"{world.seed}/node/{name}")
        self.working: dict[AttemptId, Work] = {}
        self.slow_factor = 1.0
        self.oversold = 0
        """Jobs it was given while every slot was taken, by its own count."""
        self._use = use
        self._world = world
        self._loop = world.loop
        self._link: DirectLink[SchedulerToNode] | None = None
        self._cut_off = False
        """Its network is down: it can neither speak nor connect."""
        self._down = False
        self._lying = False
        self._hid_work = False
        """It has lied about what it works on, so that too much may be given to it."""
        self._brought: set[AttemptId] = set()
        """Work of an earlier connection, which is adopted over the limit if need be."""
        self._unsent: list[JobResult] = []
        self._pulse: asyncio.TimerHandle | None = None
        self._interval = 0.0
        self._registered = False
        self._lives = 0
        group = self.group
        self._services = _services(group.semantic)
        self._languages = Languages(
            group.languages if group.asr is None else group.asr,
            group.semantic,
            group.languages if group.nmt is None else group.nmt,
            group.languages if group.tts is None else group.tts,
        )

    def start(self) -> None:
        """Connect, and from time to time fail."""
        self.connect()
        if self.group.fails_every_seconds:
            self._plan_failure()

    # --- the connection --------------------------------------------------------------------------

    def connect(self) -> None:
        """Open a connection to any instance and register over it, with the work in hand."""
        if self._down or self._cut_off or self._world.over:
            return
        instance = self._world.any_instance(self.random)
        if instance is None:
            self._connect_later()
            return
        link: DirectLink[SchedulerToNode]
        link = instance.network.connect_directly(
            instance.plane.node_endpoint, self._hear, lambda end: self._ended(link, end)
        )
        self._link = link
        self._registered = False
        self._brought = set(self.working)
        link.say(
            NodeRegister(
                version="1",
                schema_version="2.0",
                platform="simulated",
                hardware=Hardware(8, 16.0),
                services=self._services,
                languages=self._languages,
                node_id=self.node_id,
                max_concurrent_jobs=self.group.slots,
                running=self._running(),
            )
        )

    def _connect_later(self) -> None:
        self._loop.call_later(self.group.reconnect_seconds.draw(self.random), self.connect)

    def _ended(self, link: DirectLink[SchedulerToNode], end: WireClosed) -> None:
        if link is self._link:
            self._leave()
            self._connect_later()

    def _leave(self) -> None:
        """There is no connection any more."""
        if self._registered:
            self._use.changed(self._loop.time(), slots=-self.group.slots)
        self._registered = False
        self._link = None
        if self._pulse is not None:
            self._pulse.cancel()
            self._pulse = None

    # --- what happens to it ----------------------------------------------------------------------

    def die(self, seconds: float, *, loses_work: bool = True) -> None:
        """The process ends, and is started again after so many seconds."""
        if self._down:
            return
        self._down = True
        self._lives += 1
        link = self._link
        self._leave()
        if link is not None:
            link.cut(client_notices_after=None)
        if loses_work:
            self._use.changed(self._loop.time(), busy=-len(self.working))
            self.working.clear()
            self._unsent.clear()
        self._loop.call_later(seconds, self._come_back)

    def _come_back(self) -> None:
        self._down = False
        self.connect()

    def cut(self, seconds: float) -> None:
        """The network is gone for so many seconds, and neither side is told."""
        if self._down or self._cut_off:
            return
        self._cut_off = True
        link = self._link
        self._leave()
        if link is not None:
            link.cut(client_notices_after=None, server_notices_after=None)
        self._loop.call_later(seconds, self._reach_again)

    def _reach_again(self) -> None:
        self._cut_off = False
        self.connect()

    def slow_down(self, factor: float, seconds: float) -> None:
        """Jobs that begin from now on take longer, for so many seconds."""
        self.slow_factor *= factor
        self._loop.call_later(seconds, self._speed_up, factor)

    def _speed_up(self, factor: float) -> None:
        self.slow_factor /= factor

    def lie(self, seconds: float) -> None:
        """Answer for the jobs of others, and hide one's own, for so many seconds."""
        self._lying = self._hid_work = True
        self._loop.call_later(seconds, self._be_honest)
        self._tell_lies()

    def _be_honest(self) -> None:
        self._lying = False

    def _tell_lies(self) -> None:
        if not self._lying or self._world.over:
            return
        for running in self._world.work_of_others(self, self.random):
            self._say(JobAck(running.job_id, running.attempt_id))
            self._say(JobResult(running.job_id, running.attempt_id, True, text_translated=LIE))
        self._loop.call_later(_LIES_EVERY_SECONDS, self._tell_lies)

    def _plan_failure(self) -> None:
        mean = self.group.fails_every_seconds
        self._loop.call_later(self.random.expovariate(1.0) * mean, self._fail)

    def _fail(self) -> None:
        if self._world.over:
            return
        seconds = self.group.down_seconds.draw(self.random)
        self._world.note(f"{self.node_id} failed for {seconds:.0f} s")
        self.die(seconds, loses_work=self.group.loses_work)
        self._plan_failure()

    # --- listening -------------------------------------------------------------------------------

    def _hear(self, message: SchedulerToNode) -> None:
        kind = type(message)
        if kind is JobAssign:
            assert isinstance(message, JobAssign)
            self._take(message)
        elif isinstance(message, JobCancel):
            self._loop.call_later(
                self._world.way_seconds(self.random), self._stop, message.job_id, message.attempt_id
            )
        elif isinstance(message, NodeRegisterAck):
            self._loop.call_soon(self._welcomed, message, self._link)
        elif isinstance(message, NodeControl) and message.command is Command.REPORT:
            self._loop.call_soon(self._report)

    def _welcomed(self, ack: NodeRegisterAck, link: DirectLink[SchedulerToNode] | None) -> None:
        if link is None or link is not self._link:
            return
        self._registered = True
        self._use.changed(self._loop.time(), slots=self.group.slots)
        for running in ack.cancel:
            self._stop(running.job_id, running.attempt_id)
        unsent, self._unsent = self._unsent, []
        for result in unsent:
            self._finish(result)
        self._interval = ack.heartbeat_interval_ms / 1000
        self._beat(link)

    def _beat(self, link: DirectLink[SchedulerToNode]) -> None:
        if link is self._link and not self._world.closed:
            self._report()
            self._pulse = self._loop.call_later(self._interval, self._beat, link)

    def _report(self) -> None:
        self._say(NodeHeartbeat(CALM, () if self._lying else self._running()))

    def _running(self) -> tuple[RunningJob, ...]:
        return tuple(work.running for work in self.working.values())

    def _say(self, message: JobAck | JobResult | NodeHeartbeat) -> None:
        if self._link is not None:
            self._link.say(message)

    # --- working ---------------------------------------------------------------------------------

    def _take(self, assign: JobAssign) -> None:
        running = RunningJob(assign.job_id, assign.attempt_id)
        way = 2 * self._world.way_seconds(self.random)
        if len(self.working) >= self.group.slots:
            if not self._hid_work and not self._brought & self.working.keys():
                self.oversold += 1
                self._world.broke(f"{self.node_id} was given a job while all its slots were taken")
            refusal = JobResult(assign.job_id, assign.attempt_id, False, error=_OVERLOADED)
            self._loop.defer(way, self._say, refusal)
            return
        work = self.working[assign.attempt_id] = Work(running)
        self._use.changed(self._loop.time(), busy=1)
        self._loop.defer(way, self._begin, assign, work)

    def _begin(self, assign: JobAssign, work: Work) -> None:
        """The acknowledgement has arrived; the work is under way."""
        job_id, attempt_id, link = assign.job_id, assign.attempt_id, self._link
        if work.is_stopped or self.working.get(attempt_id) is not work:
            return
        if link is not None:
            # The step after it may be left out, and is: it changes nothing but what is shown.
            link.say(JobAck(job_id, attempt_id))
        group = self.group
        service_ms = group.service_ms.draw(self.random)
        if group.audio_ms_per_second and assign.audio is not None:
            seconds = len(assign.audio) / _PCM_BYTES_PER_SECOND
            service_ms += group.audio_ms_per_second * seconds
        self._loop.defer(service_ms * self.slow_factor / 1000, self._end, job_id, attempt_id, work)

    def _end(self, job_id: JobId, attempt_id: AttemptId, work: Work) -> None:
        if work.is_stopped or self.working.get(attempt_id) is not work:
            return
        failure_share = self.group.failure_share
        if failure_share and self.random.random() < failure_share:
            self._finish(JobResult(job_id, attempt_id, False, error=_CRASHED))
        else:
            self._finish(JobResult(job_id, attempt_id, True, text_translated="done"))

    def _stop(self, job_id: JobId, attempt_id: AttemptId) -> None:
        work = self.working.get(attempt_id)
        if work is not None:
            work.is_stopped = True
        self._unsent = [result for result in self._unsent if result.attempt_id != attempt_id]
        self._finish(JobResult(job_id, attempt_id, False, error=_STOPPED))

    def _finish(self, result: JobResult) -> None:
        """Send a result; while there is no connection it is kept, and the slot with it."""
        if self._link is None:
            if not self._down:
                self._unsent.append(result)
            return
        if self.working.pop(result.attempt_id, None) is not None:
            self._use.changed(self._loop.time(), busy=-1)
        self._link.say(result)


def _services(semantic: tuple[str, ...]) -> tuple[Service, ...]:
    kinds = [ServiceType.ASR, ServiceType.NMT, ServiceType.TTS]
    if semantic:
        kinds.append(ServiceType.SEMANTIC)
    return tuple(service(kind) for kind in kinds)
