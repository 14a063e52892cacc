"""One connection of a session, from its init to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.clock import Clock
from dragoman.errors import InvalidMessage
from dragoman.live.protocol import (
    AsrPartial,
    Backpressure,
    BackpressureAction,
    ClientHeartbeat,
    Error,
    Message,
    MissingResult,
    SchedulerToClient,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    UiEvent,
)
from dragoman.observability import get_logger
from dragoman.sdk.connecting import SessionLink
from dragoman.sdk.session.dialogue import Dialogue
from dragoman.sdk.session.ending import SessionConnectionEnding
from dragoman.sdk.session.events import SessionEvent
from dragoman.sdk.session.pace import Pace
from dragoman.sdk.session.pulse import SessionHeartbeat
from dragoman.sdk.transport import LinkClosed, SendsNow, listen

_log = get_logger(__name__)

_INIT_SECONDS = 10.0
"""How long a scheduler may take to answer an init."""


class Conversation:
    """Opens or resumes the session over a link, then speaks and hears until the link ends."""

    def __init__(
        self,
        link: SessionLink,
        dialogue: Dialogue,
        pace: Pace,
        clock: Clock,
        *,
        keep_bytes: int,
        acknowledged: Callable[[SessionInitAck], None],
        tell: Callable[[SessionEvent], None],
    ) -> None:
        self._link = link
        self._dialogue = dialogue
        self._pace = pace
        self._acknowledged = acknowledged
        self._tell = tell
        self._pulse = SessionHeartbeat(dialogue, clock, keep_bytes)
        self._close_sent = False
        self._refusal: Error | None = None
        self._unpausing: asyncio.TimerHandle | None = None
        self._send_now: Callable[[Message], bool] | None = None
        """Sends without waiting; None while the link cannot, or `_speak` has the word."""
        self._unsent: Message | None = None
        """What there was no room for."""
        self._hearers: Mapping[type[SchedulerToClient], Callable[[Any], None]] = {
            TranslationResult: self._ended,
            MissingResult: self._ended,
            ServerHeartbeat: self._heartbeat_answered,
            Backpressure: self._pressed,
            Error: self._complained,
            AsrPartial: tell,
            UiEvent: tell,
            SessionInitAck: _acknowledged_again,
            SessionCloseAck: _closed,
        }

    async def hold(self, init: SessionInit) -> SessionConnectionEnding:
        """Serve the connection until it ends, and return how it ended."""
        try:
            await self._link.send(init)
            async with asyncio.timeout(_INIT_SECONDS):
                ack = await self._acknowledgement()
        except TimeoutError:
            return SessionConnectionEnding("the scheduler did not answer in time")
        except LinkClosed as closed:
            return SessionConnectionEnding(closed.reason, closed.code, self._refusal)
        self._press(BackpressureAction.RESUME)  # a scheduler that has enough says so again
        self._acknowledged(ack)
        return await self._converse(ack.heartbeat_interval_ms / 1000)

    async def _acknowledgement(self) -> SessionInitAck:
        while True:
            message = await self._receive()
            if isinstance(message, SessionInitAck):
                return message
            if isinstance(message, Error):
                self._refusal = message

    async def _converse(self, interval_seconds: float) -> SessionConnectionEnding:
        aside = [
            asyncio.create_task(self._speak()),
            asyncio.create_task(self._watch(interval_seconds)),
        ]
        try:
            await listen(self._link, self._hear, _ignored)
        except _ClosedInPeace:
            return SessionConnectionEnding("the session is closed", in_peace=True)
        except LinkClosed as closed:
            if self._pulse.is_lost:
                return SessionConnectionEnding("the scheduler did not answer a heartbeat")
            return SessionConnectionEnding(closed.reason, closed.code)
        finally:
            self._send_now = None
            if self._unpausing is not None:
                self._unpausing.cancel()
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, return_exceptions=True)

    async def _receive(self) -> SchedulerToClient:
        while True:
            try:
                return await self._link.receive()
            except InvalidMessage as error:
                _ignored(error)

    # --- speaking --------------------------------------------------------------------------------

    def speak_now(self) -> bool:
        """Send what there is to say, as far as that needs no waiting; False when some is left."""
        while self._has_something_to_say():
            send_now = self._send_now
            if send_now is None or not self._pace.takes_turn():
                return False
            message = self._next_message()
            if message is not None and not send_now(message):
                self._unsent = message
                return False
        return True

    async def _speak(self) -> None:
        """Send whatever cannot be sent at once: the pace, or the network, asks for patience."""
        at_once = self._link.send_now if isinstance(self._link, SendsNow) else None
        try:
            while True:
                self._send_now = at_once
                await self._dialogue.bell.until(self._has_something_to_say)
                self._send_now = None
                await self._pace.turn()
                message = self._next_message()
                if message is not None:
                    await self._link.send(message)
        except LinkClosed:
            return  # the hearing side learns of it too, and with the reason

    def _has_something_to_say(self) -> bool:
        dialogue, speech = self._dialogue, self._dialogue.speech
        return (
            (speech is not None and not dialogue.paused and not speech.all_sent)
            or self._pulse.is_due
            or self._unsent is not None
            or (dialogue.closing and dialogue.may_close and not self._close_sent)
        )

    def _next_message(self) -> Message | None:
        dialogue = self._dialogue
        if self._unsent is not None:
            message, self._unsent = self._unsent, None
            return message
        if self._pulse.is_due:
            self._pulse.beaten()
            return ClientHeartbeat(dialogue.results.last_delivery_seq)
        if dialogue.speech is not None and not dialogue.speech.all_sent:
            return None if dialogue.paused else dialogue.speech.next_unsent()
        if dialogue.may_close and not self._close_sent:
            self._close_sent = True
            return SessionClose()
        return None

    async def _watch(self, interval_seconds: float) -> None:
        """Send heartbeats; a scheduler that does not answer counts as lost."""
        await self._pulse.run(interval_seconds)
        await self._link.close()

    # --- hearing ---------------------------------------------------------------------------------

    def _hear(self, message: SchedulerToClient) -> None:
        self._hearers[type(message)](message)
        self._dialogue.bell.ring()

    def _ended(self, message: TranslationResult | MissingResult) -> None:
        dialogue = self._dialogue
        if dialogue.speech is not None:
            dialogue.results.arrived(message, dialogue.speech)
            self._pulse.has_news()

    def _heartbeat_answered(self, message: ServerHeartbeat) -> None:
        self._pulse.answered()
        if self._dialogue.speech is not None:
            self._dialogue.speech.stored(message.next_chunk_seq)

    def _pressed(self, message: Backpressure) -> None:
        self._press(message.action, message.resume_after_ms)
        self._tell(message)

    def _complained(self, message: Error) -> None:
        self._dialogue.results.explain(message)
        self._tell(message)

    def _press(self, action: BackpressureAction, resume_after_ms: int | None = None) -> None:
        self._dialogue.paused = action is BackpressureAction.PAUSE
        self._pace.slowed = action is not BackpressureAction.RESUME
        if self._unpausing is not None:
            self._unpausing.cancel()
            self._unpausing = None
        if self._dialogue.paused and resume_after_ms is not None:
            self._unpausing = asyncio.get_running_loop().call_later(
                resume_after_ms / 1000, self._resume
            )

    def _resume(self) -> None:
        self._press(BackpressureAction.RESUME)
        self._dialogue.bell.ring()


class _ClosedInPeace(Exception):
    """The scheduler has said that the session is over, as it was asked to."""


def _closed(message: SessionCloseAck) -> None:
    raise _ClosedInPeace


def _acknowledged_again(message: SessionInitAck) -> None:
    _log.debug("acknowledgement_ignored")


def _ignored(error: InvalidMessage) -> None:
    # A newer scheduler may say things that this client does not know yet.
    _log.warning("message_ignored", problem=error.message)
