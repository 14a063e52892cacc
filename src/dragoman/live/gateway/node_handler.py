"""The node's end of a connection: a registration first, then heartbeats and attempts."""

from __future__ import annotations

import asyncio

from dragoman.errors import (
    DependencyDown,
    DragomanError,
    FleetFull,
    InvalidCapabilitySchema,
    InvalidMessage,
    NodeIdConflict,
)
from dragoman.ids import ConnectionId
from dragoman.live.dispatch import NodeEvents
from dragoman.live.fleet import Applicant, Feedback, Node, Registry
from dragoman.live.gateway.closing import CloseCode
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.endpoint import Caller
from dragoman.live.gateway.wire import Frame
from dragoman.live.protocol import (
    FROM_NODE,
    AttemptState,
    Error,
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
)

_CLOSES: dict[type[DragomanError], CloseCode] = {
    InvalidCapabilitySchema: CloseCode.BAD_FIRST_MESSAGE,
    FleetFull: CloseCode.POLICY,
    NodeIdConflict: CloseCode.POLICY,
    # Not the node's fault, and over soon: it need not wait as long as for a place in the fleet.
    DependencyDown: CloseCode.INTERNAL_ERROR,
}
"""What a refused registration does to the socket."""


class NodeDecoder:
    """Reads what nodes send; a registration that cannot be read is refused as one."""

    def decode(self, data: Frame, sub: SubProtocol) -> NodeToScheduler:
        try:
            return FROM_NODE.decode(data, sub)
        except InvalidMessage as error:
            if error.details.get("type") == "node_register":
                raise register_error(error) from error
            raise


class ConnectionLink:
    """A node's connection, as the registry sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def id(self) -> ConnectionId:
        return self._connection.id

    def send(self, message: SchedulerToNode) -> bool:
        return self._connection.send(message)

    def superseded(self) -> None:
        self._connection.close(CloseCode.SUPERSEDED, "a newer connection speaks for this node")

    def timed_out(self) -> None:
        self._connection.close(CloseCode.HEARTBEAT_TIMEOUT, "no heartbeat came in time")


class NodeHandler:
    """Handles one node's connection."""

    def __init__(
        self, caller: Caller, registry: Registry, events: NodeEvents, feedback: Feedback
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
        self._connection: Connection | None = None
        self._node: Node | None = None
        self._patience: asyncio.TimerHandle | None = None

    async def opened(self, connection: Connection) -> None:
        self._connection = connection
        # Whoever has not registered has no heartbeats that could time out.
        self._patience = asyncio.get_running_loop().call_later(
            self._registry.timeout_seconds, ConnectionLink(connection).timed_out
        )

    async def received(self, message: NodeToScheduler) -> None:
        node = self._node
        if isinstance(message, NodeRegister):
            await self._register(message)
        elif node is None:
            raise self._refuse_first()
        else:
            await self._handle(node, message)

    async def malformed(self, error: InvalidMessage) -> None:
        if self._node is not None and error.details.get("type") == "node_heartbeat":
            self._registry.invalid_beat(self._node)

    async def closed(self, code: int, reason: str) -> None:
        self._stop_waiting()
        if self._node is not None:
            await self._registry.disconnected(self._node)

    async def _handle(self, node: Node, message: NodeToScheduler) -> None:
        match message:
            case NodeHeartbeat():
                await self._registry.beat(node, message)
            case JobAck():
                await self._events.moved(
                    node.cell, node.sender, message.attempt_id, AttemptState.ACCEPTED
                )
            case JobStarted():
                await self._events.moved(
                    node.cell, node.sender, message.attempt_id, AttemptState.RUNNING
                )
            case JobResult():
                await self._events.result(node.cell, node.sender, message)
            case JobPartial():
                await self._events.partial(node.sender, message)
            case ModelNotAvailable():
                self._feedback.report(node.node_id, message)
                # The service is marked in the background, best before its job looks for a node.
                await asyncio.sleep(0)
                await self._events.model_not_available(node.cell, node.sender, message)
            case NodeDrain():
                self._registry.drained_itself(node, message.reason)
            case NodeError():
                self._registry.bad_beat(node)

    async def _register(self, message: NodeRegister) -> None:
        connection = self._connection
        if connection is None:
            return
        if self._node is not None:
            raise InvalidMessage("This connection has registered already; open another one.")
        try:
            node, ack = await self._registry.register(
                message, self._applicant, ConnectionLink(connection)
            )
        except DragomanError as error:
            connection.send(Error(error.code, error.message, details=error.details or None))
            connection.close(_CLOSES.get(type(error), CloseCode.POLICY), error.message)
            return
        self._node = node
        self._stop_waiting()
        connection.send(ack)

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
