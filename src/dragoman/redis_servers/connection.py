"""One connection to a server: asked in order, answered in order, without a task for each call."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from hiredis import ProtocolError, Reader, pack_command
from redis import exceptions
from redis.asyncio import connection as descriptions

from dragoman.redis_servers.requests import Command

Reply: TypeAlias = Any
"""What the server answered, or the error it answered with."""

_ERRORS: dict[str, type[exceptions.ResponseError]] = {
    "ASK": exceptions.AskError,
    "MOVED": exceptions.MovedError,
}
"""Error replies that a user or operator can act on, by their first word."""


class FunctionNotFound(exceptions.ResponseError):
    """The server does not have the function that was called."""


class TryAgain(exceptions.ResponseError):
    """Some of the keys have moved to another server and some have not yet."""


class CrossSlot(exceptions.ResponseError):
    """The keys of one command lie in several places."""


class NotAllowed(exceptions.ResponseError):
    """The user that the connection speaks for may not do that."""


_OWN_ERRORS: dict[str, type[exceptions.ResponseError]] = {
    "CROSSSLOT": CrossSlot,
    "NOPERM": NotAllowed,
    "TRYAGAIN": TryAgain,
}

_FUNCTION_NOT_FOUND = "ERR Function not found"

_INCOMPLETE = object()

_BLINK_SECONDS = 0.001
"""Long enough for the event loop to look at its sockets."""


class ReplyWaiter(Protocol):
    """A waiter for one reply; it gets that or a refusal, once."""

    @property
    def asked_at(self) -> float:
        """On the event loop's clock."""
        ...

    def answered(self, connection: RedisConnection, reply: Reply) -> None: ...

    def refused(self, why: str) -> None: ...


class RedisConnection(asyncio.Protocol):
    """Commands of many askers go out together, and each reply goes to the one who asked for it.

    When anything goes wrong the connection is cut and every waiter is refused, so that no waiter
    gets the reply of another.
    """

    def __init__(self, timeout_ms: int) -> None:
        self.loads: Counter[str] = Counter()
        """How often each library of functions was loaded over this connection."""
        self.on_lost: Callable[[], None] | None = None
        """Called once, before pending requests are refused."""
        self.on_idle: Callable[[], None] | None = None
        """Called whenever everything that was asked has been answered."""
        self.is_lost = False
        self._timeout_ms = timeout_ms
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(replyError=_error, notEnoughData=_INCOMPLETE)
        self._askers: deque[ReplyWaiter] = deque()
        self._transport: asyncio.Transport | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._last_chance = False

    @property
    def is_idle(self) -> bool:
        """Whether no reply is outstanding."""
        return not self._askers

    def ask(self, commands: Iterable[Command], askers: Sequence[ReplyWaiter]) -> None:
        """Send commands, one for each asker."""
        self._askers.extend(askers)
        if self._transport is None or self.is_lost:
            self.cut("cannot be reached")
            return
        # Its stub takes one word only; it takes any number.
        self._transport.write(b"".join([pack_command(command) for command in commands]))  # type: ignore[arg-type]
        if self._patience is None:
            self._be_patient()

    def cut(self, why: str) -> None:
        """Close the connection; pending requests are refused."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._transport is not None:
            self._transport.abort()
        self.is_lost = True
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()
        askers, self._askers = self._askers, deque()
        for asker in askers:
            asker.refused(why)

    # --- what the event loop calls ---------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _INCOMPLETE:
                self._askers.popleft().answered(self, reply)
            if not self._askers and self.on_idle is not None:
                self.on_idle()
        except (ProtocolError, IndexError) as error:
            self.cut(f"cannot be understood ({error})")

    def connection_lost(self, error: Exception | None) -> None:
        self.cut(f"cannot be reached ({error or 'it closed the connection'})")

    # --- inside ----------------------------------------------------------------------------------

    def _be_patient(self) -> None:
        """Wait for the oldest ask's reply; one timer serves all who wait."""
        self._patience = None
        if not self._askers:
            return
        until = self._askers[0].asked_at + self._timeout_ms / 1000
        if self._loop.time() < until:
            self._last_chance = False
            self._patience = self._loop.call_at(until, self._be_patient)
        elif not self._last_chance:
            # Perhaps this process stood still, and the reply is there to be read.
            self._last_chance = True
            self._patience = self._loop.call_later(_BLINK_SECONDS, self._be_patient)
        else:
            self.cut(f"did not answer within {self._timeout_ms} ms")


class _Greeting:
    """Waits for the replies to what is said first."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answered(self, connection: RedisConnection, reply: Reply) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)

    def refused(self, why: str) -> None:
        if not self.reply.done():
            self.reply.set_result(exceptions.ConnectionError(why))


async def connect(to: descriptions.AbstractConnection, timeout_ms: int) -> RedisConnection:
    """Open a connection like one of redis-py's that is not open: same place, same credentials."""
    loop = asyncio.get_running_loop()
    made = RedisConnection(timeout_ms)
    try:
        if isinstance(to, descriptions.UnixDomainSocketConnection):
            await loop.create_unix_connection(lambda: made, to.path)
        elif isinstance(to, descriptions.Connection):
            tls = to.ssl_context.get() if isinstance(to, descriptions.SSLConnection) else None
            await loop.create_connection(lambda: made, to.host, to.port, ssl=tls)
        greetings = [_Greeting(loop.time()) for _ in _first_words(to)]
        made.ask(_first_words(to), greetings)
        for greeting in greetings:
            if isinstance(reply := await greeting.reply, Exception):
                raise reply
        if made.is_lost:
            raise exceptions.ConnectionError("it closed the connection")
    except BaseException:
        made.cut("cannot be reached")
        raise
    return made


def _first_words(to: descriptions.AbstractConnection) -> list[Command]:
    words: list[Command] = []
    if to.password:
        words.append(("AUTH", to.username, to.password) if to.username else ("AUTH", to.password))
    if to.client_name:
        words.append(("CLIENT", "SETNAME", to.client_name))
    if to.db:
        words.append(("SELECT", int(to.db)))
    return words


def _error(message: str) -> exceptions.ResponseError:
    """An error reply as redis-py names it."""
    code, _, rest = message.partition(" ")
    if message.startswith(_FUNCTION_NOT_FOUND):
        return FunctionNotFound(rest)
    if code in _OWN_ERRORS:
        return _OWN_ERRORS[code](rest)
    kind = _ERRORS.get(code)
    return exceptions.ResponseError(message.removeprefix("ERR ")) if kind is None else kind(rest)
