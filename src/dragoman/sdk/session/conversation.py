"""One connection of a session, from its init to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

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
from dragoman.sdk.session.ending import Ending
from dragoman.sdk.session.events import SessionEvent
from dragoman.sdk.session.pace import Pace
from dragoman.sdk.session.pulse import Pulse
from dragoman.sdk.transport import LinkClosed

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
        self._pulse = Pulse(dialogue, clock, keep_bytes)
        self._close_sent = False
        self._refusal: Error | None = None
        self._unpausing: asyncio.TimerHandle | None = None

    async def hold(self, init: SessionInit) -> Ending:
        """Serve the connection until it ends, and return how it ended."""
        try:
            await self._link.send(init)
            async with asyncio.timeout(_INIT_SECONDS):
                ack = await self._acknowledgement()
        except TimeoutError:
            return Ending("the scheduler did not answer in time")
        except LinkClosed as closed:
            return Ending(closed.reason, closed.code, self._refusal)
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

    async def _converse(self, interval_seconds: float) -> Ending:
        aside = [
            asyncio.create_task(self._speak()),
            asyncio.create_task(self._watch(interval_seconds)),
        ]
        try:
            while True:
                message = await self._receive()
                if isinstance(message, SessionCloseAck):
                    return Ending("the session is closed", in_peace=True)
                self._hear(message)
                self._dialogue.bell.ring()
        except LinkClosed as closed:
            if self._pulse.is_lost:
                return Ending("the scheduler did not answer a heartbeat")
            return Ending(closed.reason, closed.code)
        finally:
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
                # A newer scheduler may say things that this client does not know yet.
                _log.warning("message_ignored", problem=error.message)

    # --- speaking --------------------------------------------------------------------------------

    async def _speak(self) -> None:
        try:
            while True:
                await self._dialogue.bell.until(self._has_something_to_say)
                await self._pace.turn()
                message = self._next_message()
                if message is not None:
                    await self._link.send(message)
                    self._dialogue.bell.ring()
        except LinkClosed:
            return  # the hearing side learns of it too, and with the reason

    def _has_something_to_say(self) -> bool:
        dialogue = self._dialogue
        unsent = dialogue.speech is not None and not dialogue.speech.all_sent
        return (
            self._pulse.is_due
            or (unsent and not dialogue.paused)
            or (dialogue.may_close and not self._close_sent)
        )

    def _next_message(self) -> Message | None:
        dialogue = self._dialogue
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
        dialogue = self._dialogue
        match message:
            case TranslationResult() | MissingResult():
                if dialogue.speech is not None:
                    dialogue.results.arrived(message, dialogue.speech)
                    self._pulse.has_news()
            case ServerHeartbeat(next_chunk_seq=next_chunk_seq):
                self._pulse.answered()
                if dialogue.speech is not None:
                    dialogue.speech.stored(next_chunk_seq)
            case Backpressure():
                self._press(message.action, message.resume_after_ms)
                self._tell(message)
            case Error():
                dialogue.results.explain(message)
                self._tell(message)
            case AsrPartial() | UiEvent():
                self._tell(message)
            case SessionInitAck() | SessionCloseAck():
                _log.debug("acknowledgement_ignored")

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
