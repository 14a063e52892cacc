"""What a node has to say, in order, while it is connected."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from dragoman.errors import DragomanError, InvalidMessage, PayloadTooLarge
from dragoman.live.protocol import Message, NodeHeartbeat
from dragoman.observability import get_logger
from dragoman.sdk.connecting import NodeLink
from dragoman.sdk.node.events import Event, ResultNotSent
from dragoman.sdk.node.hand import Attempt, Hand
from dragoman.sdk.node.outcomes import unsendable
from dragoman.sdk.transport import LinkClosed, SendsNow

_log = get_logger(__name__)

_UNSENDABLE = (InvalidMessage, PayloadTooLarge, TypeError)
"""What a link says of a message that it cannot send, whatever the connection; a TypeError is for
a value of another library, which has no form on the wire."""


class _Beat:
    """Stands for a heartbeat that is due."""


_BEAT: Final = _Beat()


class NodeOutbox:
    """Sends one thing after another over the link of the moment.

    While the link has room and nothing waits, a message is sent where it is said; else it waits
    in line for `deliver`. A heartbeat is only marked, and written when its turn comes: so it lists
    an attempt exactly when the messages before it have announced the attempt, or are about to,
    and have not ended it.
    """

    def __init__(
        self,
        hand: Hand,
        heartbeat: Callable[[], NodeHeartbeat],
        tell: Callable[[Event], None],
    ) -> None:
        self._hand = hand
        self._heartbeat = heartbeat
        self._tell = tell
        self._queue: deque[Message | Attempt | _Beat] = deque()
        self._filled = asyncio.Event()
        self._beat_is_due = False
        self._open = False
        self._send_now: Callable[[Message], bool] | None = None
        """Sends at once, if the link can; None while something waits in line."""
        self._can_send_now: Callable[[Message], bool] | None = None

    def open(self, link: NodeLink) -> None:
        """From now on there is a link. What was queued for the last one is forgotten."""
        self._queue.clear()
        self._beat_is_due = False
        self._open = True
        self._can_send_now = link.send_now if isinstance(link, SendsNow) else None
        self._send_now = self._can_send_now

    def close(self) -> None:
        """There is no link: messages are dropped, and attempts that end stay in hand."""
        self._queue.clear()
        self._open = False
        self._send_now = self._can_send_now = None

    def say(self, message: Message) -> None:
        """Send a message, if there is a connection."""
        if self._send_now is not None:
            try:
                if self._send_now(message):
                    return
            except _UNSENDABLE as error:
                _cannot_be_sent(error)
                return
        self._put(message)

    def answer(self, attempt: Attempt) -> None:
        """Send the outcome of an attempt; the attempt is in hand until that is done."""
        if self._send_now is not None and attempt.outcome is not None:
            try:
                if self._send_now(attempt.outcome):
                    self._hand.let_go(attempt)
                    return
            except _UNSENDABLE:
                pass  # `deliver` says what is sent instead
        self._put(attempt)

    def beat(self) -> None:
        """Send a heartbeat; one is enough, however many are asked for before it is sent."""
        if not self._beat_is_due:
            self._beat_is_due = True
            self._put(_BEAT)

    async def deliver(self, link: NodeLink) -> None:
        """Send what waits in line and what comes, until the link ends."""
        try:
            while True:
                while self._queue:
                    await self._send(link, self._queue.popleft())
                self._send_now = self._can_send_now
                self._filled.clear()
                await self._filled.wait()
        except LinkClosed:
            return  # the reading side learns of it too, and with the reason

    def _put(self, item: Message | Attempt | _Beat) -> None:
        if self._open:
            self._send_now = None
            self._queue.append(item)
            self._filled.set()

    async def _send(self, link: NodeLink, item: Message | Attempt | _Beat) -> None:
        if isinstance(item, Attempt):
            await self._send_outcome(link, item)
            return
        if isinstance(item, _Beat):
            self._beat_is_due = False
            item = self._heartbeat()
        try:
            await link.send(item)
        except _UNSENDABLE as error:
            _cannot_be_sent(error)

    async def _send_outcome(self, link: NodeLink, attempt: Attempt) -> None:
        assert attempt.outcome is not None
        try:
            await link.send(attempt.outcome)
        except _UNSENDABLE as unsent:
            listed, error = attempt.listed, _as_error(unsent)
            self._tell(ResultNotSent(listed.job_id, listed.attempt_id, error.code, error.message))
            await link.send(unsendable(listed, error))
        self._hand.let_go(attempt)


def _cannot_be_sent(error: InvalidMessage | PayloadTooLarge | TypeError) -> None:
    _log.warning("message_not_sent", problem=_as_error(error).message)


def _as_error(error: InvalidMessage | PayloadTooLarge | TypeError) -> DragomanError:
    if isinstance(error, TypeError):
        return InvalidMessage(f"the message holds a value that cannot be sent: {error}")
    return error
