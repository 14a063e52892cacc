"""The node's end of a connection: a registration first, then heartbeats and attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dragoman.clock import Clock
from dragoman.errors import (
    DependencyDown,
    DragomanError,
    FleetFull,
    InvalidCapabilitySchema,
    InvalidMessage,
    NodeIdConflict,
)
from dragoman.ids import AttemptId, ConnectionId, JobId
from dragoman.live.dispatch import ACCEPTED, RUNNING, NodeMessages
from dragoman.live.fleet import Applicant, Feedback, RegisteredNode, Registry
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.endpoint import Caller
from dragoman.live.gateway.wire import CloseCode, Frame
from dragoman.live.protocol import (
    FROM_NODE,
    RESULT_TYPE,
    Error,
    ErrorInfo,
    JobAck,
    JobPartial,
    JobResult,
    JobStarted,
    ModelNotAvailable,
    NodeDrain,
    NodeError,
    NodeHeartbeat,
    NodeRegister,
    NodeToScheduler,
    SchedulerToNode,
    SubProtocol,
    register_error,
    salvage_result,
)
from dragoman.observability import Metrics

_CLOSES: dict[type[DragomanError], CloseCode] = {
    InvalidCapabilitySchema: CloseCode.BAD_FIRST_MESSAGE,
    FleetFull: CloseCode.POLICY,
    NodeIdConflict: CloseCode.POLICY,
    # Not the node's fault, and over soon: it need not wait as long as for a place in the fleet.
    DependencyDown: CloseCode.INTERNAL_ERROR,
}
"""What a refused registration does to the socket."""


class NodeDecoder:
    """Reads what nodes send.

    A registration that cannot be read is refused as one. A result is used without the optional
    fields that are malformed; those are counted.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._fields_dropped = metrics.result_fields_dropped

    def reader(self, sub: SubProtocol) -> Callable[[Any], NodeToScheduler]:
        return FROM_NODE.reader(sub)

    def decode(self, data: Frame, sub: SubProtocol) -> NodeToScheduler:
        try:
            return FROM_NODE.decode(data, sub)
        except InvalidMessage as error:
            kind = error.details.get("type")
            if kind == "node_register":
                raise register_error(error) from error
            # A frame that cannot be read may be a result too, with a NaN in it, for example.
            if kind is not None and kind != RESULT_TYPE:
                raise
            found = salvage_result(data, sub, error)
            for field in found.dropped:
                self._fields_dropped.labels(field).inc()
            return found.result


class ConnectionLink:
    """A node's connection, as the registry sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.send: Callable[[SchedulerToNode], bool] = connection.send

    @property
    def id(self) -> ConnectionId:
        return self._connection.id

    def superseded(self) -> None:
        self._connection.close(CloseCode.SUPERSEDED, "a newer connection speaks for this node")

    def timed_out(self) -> None:
        self._connection.close(CloseCode.HEARTBEAT_TIMEOUT, "no heartbeat came in time")


class NodeHandler:
    """Handles one node's connection."""

    def __init__(
        self,
        caller: Caller,
        registry: Registry,
        events: NodeMessages,
        feedback: Feedback,
        max_frame_bytes: int,
        clock: Clock,
    ) -> None:
        principal = caller.principal
        self._applicant = Applicant(
            tenant=principal.tenant,
            key_id=None if principal.anonymous else principal.key_id,
            node_id=principal.node_id,
        )
        self._registry = registry
        self._events = events
        self._feedback = feedback
        self._max_frame_bytes = max_frame_bytes
        self._clock = clock
        self._connection: Connection | None = None
        self._node: RegisteredNode
        """There once it has registered."""
        self._has_registered = False
        self._patience: asyncio.TimerHandle | None = None

    async def opened(self, connection: Connection) -> None:
        self._connection = connection
        # A node that has not registered has no heartbeats that could time out.
        self._patience = asyncio.get_running_loop().call_later(
            self._registry.timeout_seconds, ConnectionLink(connection).timed_out
        )

    def received(self, message: NodeToScheduler, now: float) -> Awaitable[None] | None:
        if isinstance(message, NodeRegister):
            return self._register(message)
        raise self._refuse_first()

    async def malformed(self, error: InvalidMessage) -> None:
        said = error.details
        if not self._has_registered:
            return
        if said.get("type") == "node_heartbeat":
            self._registry.invalid_beat(self._node)
        elif said.get("type") == RESULT_TYPE and "attempt_id" in said:
            # The attempt is over, and another node may do better.
            problem = f"The node's result cannot be read: {error.message}"
            unreadable = JobResult(
                job_id=JobId(said.get("job_id", "")),
                attempt_id=AttemptId(said["attempt_id"]),
                success=False,
                error=ErrorInfo(error.code, problem),
            )
            self._result(unreadable, self._clock.monotonic())

    async def closed(self, code: int, reason: str) -> None:
        self._stop_waiting()
        if self._has_registered:
            await self._registry.disconnected(self._node)

    # --- by type of message ----------------------------------------------------------------------

    def _beat(self, message: NodeHeartbeat, now: float) -> Awaitable[None] | None:
        return self._registry.beat(self._node, message)

    def _ack(self, message: JobAck, now: float) -> None:
        self._node.words += 1
        self._events.took_step(self._node, message.attempt_id, ACCEPTED, now)

    def _started(self, message: JobStarted, now: float) -> None:
        self._node.words += 1
        self._events.took_step(self._node, message.attempt_id, RUNNING, now)

    def _result(self, message: JobResult, now: float) -> None:
        node = self._node
        if self._events.finished(node, message, now):
            self._registry.attempt_ended(node, message)

    def _partial(self, message: JobPartial, now: float) -> None:
        self._events.partial(self._node, message)

    async def _not_available(self, message: ModelNotAvailable, now: float) -> None:
        node = self._node
        self._feedback.report(node.node_id, message)
        # The service is marked in the background, best before its job looks for a node.
        await asyncio.sleep(0)
        self._events.model_not_available(node, message, self._clock.monotonic())

    def _drain(self, message: NodeDrain, now: float) -> None:
        self._registry.drained_itself(self._node, message.reason)

    def _error(self, message: NodeError, now: float) -> None:
        self._registry.bad_beat(self._node, f"the node reported {message.code}")

    def _again(self, message: NodeRegister, now: float) -> None:
        raise InvalidMessage("This connection has registered already; open another one.")

    async def _register(self, message: NodeRegister) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            node, ack = await self._registry.register(
                message, self._applicant, ConnectionLink(connection)
            )
        except DragomanError as error:
            connection.send(Error(error.code, error.message, details=error.details or None))
            connection.close(_CLOSES.get(type(error), CloseCode.POLICY), error.message)
            return
        self._node, self._has_registered = node, True
        connection.methods = {
            NodeHeartbeat: self._beat,
            JobAck: self._ack,
            JobStarted: self._started,
            JobResult: self._result,
            JobPartial: self._partial,
            ModelNotAvailable: self._not_available,
            NodeDrain: self._drain,
            NodeError: self._error,
            NodeRegister: self._again,
        }
        self._stop_waiting()
        connection.send(msgspec.structs.replace(ack, max_frame_bytes=self._max_frame_bytes))

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse_first(self) -> InvalidMessage:
        error = InvalidMessage("The first message of a node is node_register; send that.")
        if self._connection is not None:
            self._connection.send(Error(error.code, error.message))
            self._connection.close(CloseCode.BAD_FIRST_MESSAGE, error.message)
        return error
