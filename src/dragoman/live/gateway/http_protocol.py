"""HTTP connections before their callers are known: each gets so much time, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from dragoman.addresses import address_group
from dragoman.live.gateway.limits import TransportLimits

BODY_BYTES_PER_SECOND = 1024
"""How fast a body has to come once its first seconds are over."""

EVENTS_PER_TURN = 64
"""After so many pieces of one request the other connections get a turn, however small they are."""

MAX_HEADER_BYTES = 1 << 14
"""Most bytes of a request before its body."""

_ANSWER = (
    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    "x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
    "content-length: {size}\r\n\r\n{problem}"
)
_PROBLEM = '{{"error":{{"code":"{code}","message":"{message}","details":{{}}}}}}'


class HttpProtocol(H11Protocol):
    """uvicorn's own protocol, for callers that are slow, many, or send their bodies in crumbs.

    uvicorn itself waits for ever for the rest of a request once its first byte has come, and reads
    everything that came in one turn.
    """

    def __init__(self, *args: Any, limits: TransportLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = self._events = _BoundedConnection(
            h11.SERVER, self.config.h11_max_incomplete_event_size or MAX_HEADER_BYTES
        )
        self._limits = limits
        self._counted_for: str | None = None
        self._waiting_since = self.loop.time()
        """Since when the caller owes the next request, or the rest of its body."""
        self._body_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._will_go_on = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self._on_resume)
        if self.client is not None and not self._limits.is_proxy(self.client[0]):
            group = address_group(self.client[0])
            if not self._limits.sockets.has_room(group):
                self._turn_away(
                    "429 Too Many Requests",
                    "RATE_LIMITED",
                    "This address has too many connections open; close some, or have an operator "
                    "raise limits.sockets_per_address.",
                )
                return
            self._limits.sockets.add(group)
            self._counted_for = group
        self._look_again_in(self._limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._let_go()
        super().handle_websocket_upgrade(event)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._body_bytes += len(data)
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._waiting_since = self.loop.time()
        self._body_bytes = 0
        super().on_response_complete()

    # --- a bounded share of a turn ---------------------------------------------------------------

    def handle_events(self) -> None:
        self._events.left = EVENTS_PER_TURN
        super().handle_events()
        if self._events.left == 0 and not self.transport.is_closing():
            self.flow.pause_reading()
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._will_go_on:
            self._will_go_on = True
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._will_go_on = False
        if self.transport.is_closing() or self._events.left:
            return
        cycle = self._unanswered()
        if cycle is not None and len(cycle.body) > HIGH_WATER_LIMIT:
            return  # the application has to read first; `_on_resume` comes when it has
        self.flow.resume_reading()
        self.handle_events()

    def _on_resume(self) -> None:
        if self._events.left == 0:
            self._go_on_soon()

    # --- deadlines -------------------------------------------------------------------------------

    def _look_again_in(self, seconds: float) -> None:
        if self._limits.header_seconds:
            self._deadline = self.loop.call_later(seconds, self._check_deadline)

    def _check_deadline(self) -> None:
        now, cycle = self.loop.time(), self._unanswered()
        due = self._waiting_since + self._limits.header_seconds
        if cycle is not None:
            if not cycle.more_body or self.flow.read_paused:
                # The caller waits for us, not we for it.
                self._waiting_since, self._body_bytes = now, 0
                due = now + self._limits.header_seconds
            else:
                due += self._limits.body_seconds + self._body_bytes / BODY_BYTES_PER_SECOND
        if now < due:
            self._look_again_in(due - now)
        elif cycle is not None and not cycle.response_complete and cycle.response_started:
            self.transport.close()
        elif (cycle is not None and not cycle.response_complete) or self.conn.trailing_data[0]:
            self._turn_away(
                "408 Request Timeout",
                "INVALID_MESSAGE",
                "The request did not come in time; send it again, and all of it.",
            )
        else:
            # To a browser that connects in advance, an answer would be one to its next request.
            self.transport.close()

    def _unanswered(self) -> RequestResponseCycle | None:
        """The request that is being answered, if there is one."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP in the form of every other refusal."""
        cycle = self._unanswered()
        if cycle is not None and cycle.response_started:
            self.transport.close()  # within an answer there is no place for another
            return
        self._turn_away("400 Bad Request", "INVALID_MESSAGE", "The request is no valid HTTP/1.1.")

    def _turn_away(self, status: str, code: str, message: str) -> None:
        problem = _PROBLEM.format(code=code, message=message)
        answer = _ANSWER.format(status=status, size=len(problem), problem=problem)
        self.transport.write(answer.encode())
        self.transport.close()

    def _let_go(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._counted_for is not None:
            self._limits.sockets.remove(self._counted_for)
            self._counted_for = None


class _BoundedConnection(h11.Connection):
    """Tells a few events, and then that it needs data, though it may have more to tell."""

    left = EVENTS_PER_TURN

    def next_event(self) -> Any:
        if self.left == 0:
            return h11.NEED_DATA
        event = super().next_event()
        if event is not h11.NEED_DATA:
            self.left -= 1
        return event


class _Flow(FlowControl):
    """Says when the application wants to read on."""

    def __init__(self, transport: asyncio.Transport, on_resume: Callable[[], None]) -> None:
        super().__init__(transport)
        self._on_resume = on_resume

    def resume_reading(self) -> None:
        super().resume_reading()
        self._on_resume()
