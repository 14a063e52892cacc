"""A scheduler for tests: it says what a script tells it to, and writes down what nodes say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from dragoman.auth import ApiKey, OpenAuthenticator, Permission, Principal, Role
from dragoman.clock import Clock
from dragoman.errors import InvalidMessage, Unauthorized
from dragoman.ids import AttemptId, InstanceId, JobId, KeyId, NodeId, TenantId
from dragoman.live.gateway import (
    Caller,
    CloseCode,
    Connection,
    ConnectionLimits,
    Connections,
    Endpoint,
)
from dragoman.live.protocol import (
    FROM_NODE,
    Cut,
    Error,
    JobAssign,
    JobCancel,
    JobClass,
    Message,
    Mode,
    NodeDrain,
    NodeHealth,
    NodeRegister,
    NodeRegisterAck,
    NodeStatus,
    NodeToScheduler,
    Pipeline,
    RunningJob,
)

M = TypeVar("M", bound=Message)

NODE_KEY = ApiKey("the-key-of-a-node")
HEARTBEAT_MS = 5_000

LIMITS = ConnectionLimits(
    max_frame_bytes=1_000_000,
    queue_messages=1_000,
    queue_bytes=10_000_000,
    messages_per_second=1_000_000,
)


class NodeKeys(OpenAuthenticator):
    """Lets everyone in, or only those with the key."""

    def __init__(self, *, required: bool) -> None:
        self._required = required

    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        if self._required and key != NODE_KEY:
            raise Unauthorized("the key is missing or wrong")
        return Principal(KeyId("k-1"), Role.NODE, TenantId("acme"))


class FakeScheduler:
    """One end of the node protocol. Each connection's messages are kept in `heard`."""

    def __init__(self, clock: Clock, *, keys_required: bool = False) -> None:
        self.heard: list[list[NodeToScheduler]] = []
        self.heard_at: list[list[float]] = []
        self.connections: list[Connection] = []
        self.unwanted: Callable[[NodeRegister], tuple[RunningJob, ...]] = lambda _: ()
        """What the next acknowledgement tells a node to cancel."""
        self.refusal: tuple[Error | None, CloseCode] | None = None
        """What a registration is answered with instead of an acknowledgement."""
        self.answers_registrations = True
        self.max_frame_bytes = 0
        self._clock = clock
        self._news = asyncio.Event()
        self.endpoint: Endpoint[NodeToScheduler] = Endpoint(
            name="node",
            decoder=FROM_NODE,
            authenticator=NodeKeys(required=keys_required),
            permission=Permission.NODE_SOCKET,
            handler=lambda caller: _Handler(self, caller),
            limits=LIMITS,
            connections=Connections(),
            clock=clock,
            random=Random(0),
        )

    # --- what it says ---------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        self.connections[-1].send(message)

    def assign(self, attempt: str, *, text: str = "hello", **fields: object) -> JobAssign:
        """Give the node a job; attempt and job have the same name."""
        chosen = {
            "src_lang": "en",
            "tgt_lang": "es",
            "mode": Mode.ONE_WAY,
            "pipeline": Pipeline(use_nmt=True),
            "text": text,
            **fields,
        }
        message = JobAssign(
            job_id=JobId(attempt),
            attempt_id=AttemptId(attempt),
            trace_id="t",
            job_class=JobClass.LIVE,
            features=(),
            padding_ms=0,
            cut=Cut.NONE,
            deadline_ms=60_000,
            **chosen,  # type: ignore[arg-type]
        )
        self.send(message)
        return message

    def cancel(self, attempt: str) -> None:
        self.send(JobCancel(JobId(attempt), AttemptId(attempt), "no longer wanted"))

    # --- what it heard --------------------------------------------------------------------------

    def all(self, kind: type[M]) -> list[M]:
        """Every message of a kind, over all connections."""
        return [message for heard in self.heard for message in heard if isinstance(message, kind)]

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until what the nodes said makes something true."""
        while not happened():
            self._news.clear()
            await self._news.wait()

    async def hears(self, kind: type[M], count: int = 1) -> list[M]:
        await self.until(lambda: len(self.all(kind)) >= count)
        return self.all(kind)

    def write_down(self, number: int, message: NodeToScheduler) -> None:
        self.heard[number].append(message)
        self.heard_at[number].append(self._clock.monotonic())
        self._news.set()


class _Handler:
    def __init__(self, scheduler: FakeScheduler, caller: Caller) -> None:
        self._scheduler = scheduler
        self._number = -1
        self._connection: Connection

    async def opened(self, connection: Connection) -> None:
        self._connection = connection
        self._number = len(self._scheduler.heard)
        self._scheduler.heard.append([])
        self._scheduler.heard_at.append([])
        self._scheduler.connections.append(connection)

    async def received(self, message: NodeToScheduler, now: float) -> None:
        if isinstance(message, NodeRegister):
            self._register(message)
        elif isinstance(message, NodeDrain):
            self._connection.send(NodeStatus(NodeHealth.DRAINING, "asked for by the node"))
        self._scheduler.write_down(self._number, message)

    def _register(self, register: NodeRegister) -> None:
        if not self._scheduler.answers_registrations:
            return
        if self._scheduler.refusal is not None:
            error, code = self._scheduler.refusal
            if error is not None:
                self._connection.send(error)
            self._connection.close(code, "refused")
            return
        self._connection.send(
            NodeRegisterAck(
                node_id=register.node_id or NodeId("n-chosen"),
                registration_token="a-token",
                instance_id=InstanceId("i-1"),
                status=NodeHealth.REGISTERING,
                heartbeat_interval_ms=HEARTBEAT_MS,
                cell=0,
                pools=2,
                cancel=self._scheduler.unwanted(register),
                max_frame_bytes=self._scheduler.max_frame_bytes,
            )
        )

    async def malformed(self, error: InvalidMessage) -> None:
        raise AssertionError(f"the node sent nonsense: {error.message}")

    async def closed(self, code: int, reason: str) -> None:
        return None
