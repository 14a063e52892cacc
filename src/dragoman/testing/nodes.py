"""Simulated nodes: honest ones that count for themselves, and every kind of misbehaviour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TypedDict

from dragoman.auth import ApiKey
from dragoman.ids import AttemptId, NodeId
from dragoman.live.gateway import (
    ConnectionClosed,
    DuplexLink,
    Endpoint,
    MemoryClient,
    MemoryNetwork,
)
from dragoman.live.protocol import (
    TO_NODE,
    Command,
    Device,
    Error,
    ErrorInfo,
    Hardware,
    JobAck,
    JobAssign,
    JobCancel,
    JobResult,
    JobStarted,
    Languages,
    Message,
    ModelNotAvailable,
    NodeControl,
    NodeHealth,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    NodeStatus,
    NodeToScheduler,
    ResourceUsage,
    RunningJob,
    SchedulerToNode,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.task_set import TaskSet

CALM = ResourceUsage(cpu_percent=1.0, mem_percent=1.0)
"""What the heartbeats of a node say that has little to do."""
OVERLOADED = ErrorInfo("NODE_OVERLOADED", "every slot is taken")
STOPPED = ErrorInfo("JOB_CANCELLED", "stopped as asked")


class JobEnding(Enum):
    """How a simulated node ends its jobs."""

    WELL = "well"
    RETRYABLE = "retryable"
    """With an error after which another node is asked."""
    FINAL = "final"
    """With an error after which no other node is asked."""
    OVERLOADED = "overloaded"
    """It refuses them: every slot is taken, it says."""
    MODEL_MISSING = "model_missing"
    NEVER = "never"


Duration = Callable[[Random], float]
"""A draw, in seconds, for each job."""


def seconds(value: float) -> Duration:
    """Every job takes this long."""
    return lambda _: value


def exponential(mean: float) -> Duration:
    """Jobs take any time, so long on average."""
    return lambda random: random.expovariate(1 / mean)


@dataclass
class Behaviour:
    """How a simulated node behaves; a test may change it while the node runs."""

    slots: int | None = 4
    service: Duration = lambda _: 1.0
    """How long it works on a job."""
    service_of: Callable[[JobAssign], float] | None = None
    """How many seconds it works on this job; without one, what `service` draws."""
    answer: JobEnding = JobEnding.WELL
    text: Callable[[JobAssign], str] | None = None
    """What it answers; without one, its own name."""
    acks: bool = True
    """Whether it says that it took a job, and that it started."""
    lists: bool = True
    """Whether its heartbeats tell what it works on."""
    obeys_cancel: bool = True
    cancel_seconds: float = 0.0
    """How long it takes to obey."""
    beats: bool = True
    """Whether it sends heartbeats."""
    public: bool = True
    """Whether it takes jobs that do not name it."""
    asr: tuple[str, ...] = ("zh", "en")
    nmt: tuple[str, ...] = ("zh", "en")
    tts: tuple[str, ...] = ("zh", "en")
    features: tuple[str, ...] = ()
    services: tuple[Service, ...] | None = None
    """What it runs; None: `SERVICES`."""


class BehaviourOptions(TypedDict, total=False):
    """The fields of `Behaviour`, as keywords."""

    slots: int | None
    service: Duration
    service_of: Callable[[JobAssign], float] | None
    answer: JobEnding
    text: Callable[[JobAssign], str] | None
    acks: bool
    lists: bool
    obeys_cancel: bool
    cancel_seconds: float
    beats: bool
    public: bool
    asr: tuple[str, ...]
    nmt: tuple[str, ...]
    tts: tuple[str, ...]
    features: tuple[str, ...]
    services: tuple[Service, ...] | None


def service(kind: ServiceType, status: ServiceStatus = ServiceStatus.RUNNING) -> Service:
    """A service as nodes list it, such as ``nmt-1``."""
    return Service(f"{kind.value}-1", kind, Device.CPU, status)


SERVICES = tuple(service(kind) for kind in (ServiceType.ASR, ServiceType.NMT, ServiceType.TTS))
"""What every simulated node runs."""


class SimulatedNode:
    """A node program: its work goes on while its connection is gone, until it is restarted."""

    def __init__(
        self,
        node_id: str,
        network: MemoryNetwork,
        endpoint: Endpoint[NodeToScheduler],
        random: Random,
        behaviour: Behaviour,
        key: ApiKey | None = None,
    ) -> None:
        self.node_id = NodeId(node_id)
        self.behaviour = behaviour
        self.working: dict[AttemptId, RunningJob] = {}
        """What it works on, by its own count."""
        self.high_water = 0
        self.over_limit = 0
        """Jobs it was given while every slot was taken, by its own count.

        Not counted while it still has work from an earlier connection: such work is adopted,
        over the limit if need be.
        """
        self.assigned: list[JobAssign] = []
        self.heard: list[SchedulerToNode] = []
        self.status: NodeHealth | None = None
        self.token: str | None = None
        self.close_code: int | None = None
        self.ack: NodeRegisterAck | None = None
        self._network = network
        self._endpoint = endpoint
        self._random = random
        self._key = key
        self._client: MemoryClient[SchedulerToNode] | None = None
        self._tasks = TaskSet()
        self._jobs: dict[AttemptId, asyncio.Task[None]] = {}
        self._brought: set[AttemptId] = set()
        self._unsent: dict[AttemptId, JobResult] = {}
        self.choose_instance: Callable[[], None] = lambda: None
        """Called before each connection: the node may go to another instance."""
        self._stopped: DuplexLink | None = None
        """The connection over which nothing goes, while the process is stopped."""
        self._ear: asyncio.Task[None] | None = None
        self._pulse: asyncio.Task[None] | None = None

    # --- the connection --------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._client is not None

    @property
    def client(self) -> MemoryClient[SchedulerToNode]:
        assert self._client is not None, f"{self.node_id} is not connected"
        return self._client

    async def connect(self, *, key: ApiKey | None = None, token: str | None = None) -> None:
        """Open a connection and register over it, with the work in hand."""
        self.choose_instance()
        client = await self._network.connect(self._endpoint, TO_NODE, key=key or self._key)
        self._client, self.ack, self.close_code = client, None, None
        self._brought = set(self.working)
        self._ear = self._tasks.spawn(self._listen(client))
        await client.send(
            NodeRegister(
                version="1",
                schema_version="2.0",
                platform="test",
                hardware=Hardware(4, 8.0),
                services=self.behaviour.services or SERVICES,
                languages=Languages(self.behaviour.asr, (), self.behaviour.nmt, self.behaviour.tts),
                node_id=self.node_id,
                registration_token=token,
                features=self.behaviour.features,
                max_concurrent_jobs=self.behaviour.slots,
                accept_public_jobs=self.behaviour.public,
                running=tuple(self.working.values()),
            )
        )

    def goes_to(self, network: MemoryNetwork, endpoint: Endpoint[NodeToScheduler]) -> None:
        """Connect to another instance from the next time on."""
        self._network, self._endpoint = network, endpoint

    def cut(self, *, server_notices_after: float | None = 0.0) -> None:
        """The network breaks; the node's work goes on."""
        client, self._client = self._client, None
        if client is not None:
            client.link.cut(server_notices_after=server_notices_after)

    def pause(self) -> None:
        """Nothing gets in or out and no heartbeat is sent, as when the process is stopped."""
        self._stopped = self.client.link
        self._stopped.to_server.pause()
        self._stopped.to_client.pause()

    def resume(self) -> None:
        """What was held back goes through."""
        link, self._stopped = self._stopped, None
        if link is not None:
            link.to_client.resume()
            link.to_server.resume()

    def restart(self) -> None:
        """The process dies, with all its work."""
        self.cut()
        for task in self._jobs.values():
            task.cancel()
        self._jobs.clear()
        self.working.clear()
        self._unsent.clear()

    async def stop(self) -> None:
        """End everything the node does."""
        self.restart()
        await self._tasks.stop()

    # --- speaking --------------------------------------------------------------------------------

    async def say(self, message: Message) -> bool:
        """Send a message, if there is a connection."""
        if self._client is None:
            return False
        try:
            await self._client.send(message)
        except ConnectionClosed:
            return False
        return True

    async def beat(
        self,
        usage: ResourceUsage = CALM,
        *,
        slots: int | None = None,
        services: tuple[Service, ...] | None = None,
    ) -> None:
        await self.say(
            NodeHeartbeat(
                usage,
                tuple(self.working.values()) if self.behaviour.lists else (),
                services=services,
                max_concurrent_jobs=slots,
            )
        )

    async def finish(self, running: RunningJob, result: JobResult) -> None:
        """Send a result; while there is no connection it is kept."""
        if not await self.say(result):
            self._unsent[running.attempt_id] = result
            return
        self.working.pop(running.attempt_id, None)

    # --- listening -------------------------------------------------------------------------------

    async def _listen(self, client: MemoryClient[SchedulerToNode]) -> None:
        try:
            while True:
                message = await client.receive()
                if client is self._client:
                    self.heard.append(message)
                    await self._hear(message)
        except ConnectionClosed as closed:
            if client is self._client:
                self._client = None
                self.close_code = closed.code

    async def _hear(self, message: SchedulerToNode) -> None:
        match message:
            case NodeRegisterAck():
                await self._registered(message)
            case NodeStatus():
                self.status = message.status
            case JobAssign():
                self._take(message)
            case JobCancel():
                await self._cancelled(RunningJob(message.job_id, message.attempt_id))
            case NodeControl(command=Command.REPORT):
                if self.behaviour.beats:
                    await self.beat()
            case NodeControl() | Error():
                pass

    async def _registered(self, ack: NodeRegisterAck) -> None:
        self.ack, self.token, self.status = ack, ack.registration_token, ack.status
        for running in ack.cancel:
            await self._cancelled(running)
        for attempt_id, result in list(self._unsent.items()):
            if await self.say(result):
                self._unsent.pop(attempt_id, None)
                self.working.pop(attempt_id, None)
        if self._pulse is not None:
            self._pulse.cancel()
        self._pulse = self._tasks.spawn(self._beat_forever(ack.heartbeat_interval_ms / 1000))

    async def _beat_forever(self, interval: float) -> None:
        while self.connected:
            if self.behaviour.beats and self._stopped is None:
                await self.beat()
            await asyncio.sleep(interval)

    # --- working ---------------------------------------------------------------------------------

    def _take(self, assign: JobAssign) -> None:
        self.assigned.append(assign)
        running = RunningJob(assign.job_id, assign.attempt_id)
        limit = self.behaviour.slots
        if limit is not None and len(self.working) >= limit:
            self.over_limit += not self._brought & self.working.keys()
            self._tasks.spawn(self._refuse(running))
            return
        self.working[assign.attempt_id] = running
        self.high_water = max(self.high_water, len(self.working))
        task = self._tasks.spawn(self._work(running, assign))
        self._jobs[assign.attempt_id] = task
        task.add_done_callback(lambda _: self._jobs.pop(assign.attempt_id, None))

    async def _refuse(self, running: RunningJob) -> None:
        await self.say(JobResult(running.job_id, running.attempt_id, False, error=OVERLOADED))

    async def _work(self, running: RunningJob, assign: JobAssign) -> None:
        job_id, attempt_id = running.job_id, running.attempt_id
        answer = self.behaviour.answer
        if answer is JobEnding.OVERLOADED:
            result = JobResult(job_id, attempt_id, False, error=OVERLOADED)
            await self.finish(running, result)
            return
        if self.behaviour.acks:
            await self.say(JobAck(job_id, attempt_id))
            await self.say(JobStarted(job_id, attempt_id))
        if answer is JobEnding.NEVER:
            await asyncio.Event().wait()
        given = self.behaviour.service_of
        await asyncio.sleep(
            self.behaviour.service(self._random) if given is None else given(assign)
        )
        match answer:
            case JobEnding.WELL:
                write = self.behaviour.text
                text = str(self.node_id) if write is None else write(assign)
                result = JobResult(job_id, attempt_id, True, text_translated=text)
            case JobEnding.MODEL_MISSING:
                await self.say(
                    ModelNotAvailable("nmt-1", "not loaded", job_id=job_id, attempt_id=attempt_id)
                )
                self.working.pop(attempt_id, None)
                return
            case _:
                error = ErrorInfo("MODEL_CRASHED", "no luck", answer is JobEnding.RETRYABLE)
                result = JobResult(job_id, attempt_id, False, error=error)
        await self.finish(running, result)

    async def _cancelled(self, running: RunningJob) -> None:
        if not self.behaviour.obeys_cancel:
            return
        task = self._jobs.pop(running.attempt_id, None)
        if task is not None:
            task.cancel()
        self._tasks.spawn(self._stop(running))

    async def _stop(self, running: RunningJob) -> None:
        await asyncio.sleep(self.behaviour.cancel_seconds)
        self._unsent.pop(running.attempt_id, None)
        result = JobResult(running.job_id, running.attempt_id, False, error=STOPPED)
        await self.finish(running, result)
