"""One connection of a node, from its registration to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import (
    Error,
    JobAssign,
    JobCancel,
    NodeControl,
    NodeRegister,
    NodeRegisterAck,
    NodeStatus,
    RunningJob,
    SchedulerToNode,
)
from dragoman.observability import get_logger
from dragoman.sdk.connecting import NodeLink
from dragoman.sdk.node.ending import NodeConnectionEnding
from dragoman.sdk.node.outbox import NodeOutbox
from dragoman.sdk.node.outcomes import cancelled
from dragoman.sdk.node.workbench import Workbench
from dragoman.sdk.transport import LimitsFrames, LinkClosed, listen

_log = get_logger(__name__)

_REGISTER_SECONDS = 10.0
"""How long a scheduler may take to answer a registration."""


class NodeConversation:
    """Registers over a link, then hears and answers until the link ends."""

    def __init__(
        self,
        link: NodeLink,
        outbox: NodeOutbox,
        workbench: Workbench,
        *,
        registered: Callable[[NodeRegisterAck], None],
        status_changed: Callable[[NodeStatus], None],
        commanded: Callable[[NodeControl], None],
    ) -> None:
        self._link = link
        self._outbox = outbox
        self._workbench = workbench
        self._registered = registered
        self._refusal: Error | None = None
        self._hearers: Mapping[type[SchedulerToNode], Callable[[Any], None]] = {
            JobAssign: workbench.assign,
            JobCancel: self._cancel,
            NodeStatus: status_changed,
            NodeControl: commanded,
            Error: _complaint,
            NodeRegisterAck: _second_acknowledgement,
        }

    async def hold(self, register: NodeRegister) -> NodeConnectionEnding:
        """Serve the connection until it ends, and return how it ended."""
        try:
            await self._link.send(register)
            async with asyncio.timeout(_REGISTER_SECONDS):
                ack = await self._acknowledgement()
        except TimeoutError:
            return NodeConnectionEnding("the scheduler did not answer the registration")
        except LinkClosed as closed:
            return NodeConnectionEnding(closed.reason, closed.code, self._refusal)
        if ack.max_frame_bytes and isinstance(self._link, LimitsFrames):
            self._link.limit(ack.max_frame_bytes)
        self._outbox.open(self._link)
        self._outbox.beat()
        self._registered(ack)
        self._workbench.settle(ack.cancel, cancelled("the scheduler does not want it any more"))
        return await self._converse(ack.heartbeat_interval_ms / 1000)

    async def _acknowledgement(self) -> NodeRegisterAck:
        while True:
            message = await self._receive()
            if isinstance(message, NodeRegisterAck):
                return message
            if isinstance(message, Error):
                self._refusal = message

    async def _converse(self, interval_seconds: float) -> NodeConnectionEnding:
        aside = [
            asyncio.create_task(self._outbox.deliver(self._link)),
            asyncio.create_task(self._beat_every(interval_seconds)),
        ]
        try:
            await listen(self._link, self._hear, _ignored)
        except LinkClosed as closed:
            return NodeConnectionEnding(closed.reason, closed.code)
        finally:
            self._outbox.close()
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, return_exceptions=True)

    async def _receive(self) -> SchedulerToNode:
        while True:
            try:
                return await self._link.receive()
            except InvalidMessage as error:
                _ignored(error)

    async def _beat_every(self, interval_seconds: float) -> None:
        while True:
            await asyncio.sleep(interval_seconds)
            self._outbox.beat()

    def _hear(self, message: SchedulerToNode) -> None:
        self._hearers[type(message)](message)

    def _cancel(self, message: JobCancel) -> None:
        listed = RunningJob(message.job_id, message.attempt_id)
        self._workbench.call_off(listed, cancelled(message.reason))


def _complaint(message: Error) -> None:
    _log.warning("scheduler_error", code=message.code, message=message.message)


def _second_acknowledgement(message: NodeRegisterAck) -> None:
    _log.debug("second_acknowledgement_ignored")


def _ignored(error: InvalidMessage) -> None:
    # A newer scheduler may say things that this node does not know yet.
    _log.warning("message_ignored", problem=error.message)
