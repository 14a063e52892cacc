"""Listening to a session that another client speaks in."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from dragoman.clock import Clock, SystemClock
from dragoman.errors import BY_CODE, DragomanError, InternalError
from dragoman.live.protocol import (
    TO_LISTENER,
    Error,
    ListenAck,
    ListenEnd,
    MissingResult,
    SchedulerToListener,
    TranslationResult,
)
from dragoman.sdk.session.results import Missing, Result
from dragoman.sdk.transport import Backoff, Door, LinkClosed, Unreachable, WebSocketDoorConnect

_ELSEWHERE = "SESSION_ELSEWHERE"
_LATER = frozenset({"RATE_LIMITED", "SCHEDULER_DEPENDENCY_DOWN", "SERVER_DRAINING"})


async def listen(
    url: str,
    session_id: str,
    *,
    token: str | None = None,
    tgt_lang: str | None = None,
    audio: bool = False,
    last_delivery_seq: int | None = None,
    reconnect_seconds: float = 60.0,
    clock: Clock | None = None,
) -> AsyncIterator[Result]:
    """The results of a session as they come, in one language, until the session is over.

    `token` is the session's `listen_token`, or a key that may see the session. Without `tgt_lang`
    it is the first language that the session translates to; `audio` brings the speech, too. With
    `last_delivery_seq`, what the server still keeps after that number comes first. A lost
    connection is made again, and goes on where it was. Unreachable says why there is none: at
    once where there never was one, else after `reconnect_seconds`. A refusal is raised as the
    error that it is.
    """
    clock = clock or SystemClock()
    backoff = Backoff(secrets.SystemRandom())
    home, seq = url, last_delivery_seq
    lost_at: float | None = None
    was_there = False
    while True:
        connect = _door(url, session_id, token, tgt_lang, audio=audio, seq=seq)
        try:
            link = await connect()
        except Unreachable as error:
            if not was_there:
                raise
            url = home  # the instance that the session was at may be gone
            lost_at = await _pause(lost_at, reconnect_seconds, backoff, clock, str(error))
            continue
        was_there = True
        try:
            while True:
                message = await link.receive()
                if isinstance(message, Error):
                    raise _Refusal(message)
                lost_at = None
                backoff.reset()
                if isinstance(message, ListenEnd):
                    return
                if isinstance(message, ListenAck) and seq is None:
                    seq = message.last_delivery_seq
                if isinstance(message, TranslationResult | MissingResult):
                    if seq is not None and message.delivery_seq <= seq:
                        continue  # it came over the connection before
                    seq = message.delivery_seq
                    yield _result(message)
        except _Refusal as refusal:
            told = refusal.message
            elsewhere = (told.details or {}).get("url")
            if told.code == _ELSEWHERE and isinstance(elsewhere, str):
                url = elsewhere
                backoff.reset()
            elif told.code not in _LATER:
                raise _as_error(told) from None
            lost_at = await _pause(lost_at, reconnect_seconds, backoff, clock, told.message)
        except LinkClosed as closed:
            lost_at = await _pause(lost_at, reconnect_seconds, backoff, clock, f"{url}: {closed}")
            url = home
        finally:
            await link.close()


class _Refusal(Exception):
    def __init__(self, message: Error) -> None:
        super().__init__(message.code)
        self.message = message


def _door(
    url: str,
    session_id: str,
    token: str | None,
    tgt_lang: str | None,
    *,
    audio: bool,
    seq: int | None,
) -> WebSocketDoorConnect[SchedulerToListener]:
    asked = {"tgt_lang": tgt_lang, "audio": "true" if audio else None, "last_delivery_seq": seq}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    parts = urlsplit(url)
    address = urlunsplit(parts._replace(query=query))
    door: Door[SchedulerToListener] = Door(f"/ws/listen/{quote(session_id, safe='')}", TO_LISTENER)
    return WebSocketDoorConnect(address, door, token=token)


async def _pause(
    lost_at: float | None, reconnect_seconds: float, backoff: Backoff, clock: Clock, why: str
) -> float:
    """Wait before the next connection; since when there is none."""
    now = clock.monotonic()
    since = now if lost_at is None else lost_at
    if now - since > reconnect_seconds:
        raise Unreachable(
            f"the session was lost and not found again within {reconnect_seconds:g} s:"
            f" {why.rstrip('.')}"
        )
    await asyncio.sleep(backoff.next_seconds())
    return since


def _result(message: TranslationResult | MissingResult) -> Result:
    if isinstance(message, TranslationResult):
        return message
    return Missing(message.utterance_index, message.reason, message.tgt_lang, message.job_id)


def _as_error(told: Error) -> DragomanError:
    return BY_CODE.get(told.code, InternalError)(told.message, details=dict(told.details or {}))
