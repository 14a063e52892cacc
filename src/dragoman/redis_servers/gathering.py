"""Asking servers: requests travel together, each is answered or refused in time.

None is retried, unless the server said that it did nothing because it does not know the function,
or because the keys are moving.

A journey costs many times what a request does, on both sides. So a server that is near is asked
for the next things when it has answered the last, and what comes up meanwhile goes together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from redis.exceptions import (
    AskError,
    MovedError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from dragoman.errors import DependencyDown, DragomanError, InternalError
from dragoman.observability import get_logger
from dragoman.redis_servers.connection import (
    CrossSlot,
    FunctionNotFound,
    NotAllowed,
    RedisConnection,
    Reply,
    ReplyWaiter,
    TryAgain,
    connect,
)
from dragoman.redis_servers.requests import Command, FunctionCall, RedisRequest, run_together
from dragoman.redis_servers.servers import ANY_LANE, Servers

log = get_logger("dragoman.redis")

_LED_ON_AT_MOST = 3
"""A request goes so often to a server that holds the keys now, or again with its library."""

_BROKEN_FUNCTION = "user_function:"
"""How the error of a function that is wrong begins."""

_BROKEN_FUNCTIONS = ("Error ", "No functions registered")
"""What is said of a library that does not compile, or that registers nothing."""
_OUT_OF_MEMORY = "OOM "

_GATHER_SECONDS = 0.001
"""How long requests wait for the answer to earlier ones, before they are sent all the same."""

_MOST_TOGETHER = 32
"""Functions that one call runs: while it does, the server does nothing else."""

_MOVING_SECONDS = 0.02
"""How long to wait while some of the keys are on one server and some on another."""

_MOVING_SHARE = 0.5
"""How much of the time for an answer may pass with that."""

_LET_GO = "was closed"
_UNKNOWN_OUTCOME = "Whether the operation took effect is unknown; asking again is safe."

_ASKING: Command = ("ASKING",)
"""Lets the next command touch keys that are just moving to the server."""


Then: TypeAlias = Callable[[Reply, DragomanError | None], None]
"""Called once, with the reply, or with why there is none."""


class _Asking:
    """A request, and what is called with its reply."""

    __slots__ = (
        "asked_at",
        "by_itself",
        "caller",
        "led_on",
        "loads_seen",
        "loads_with",
        "moving",
        "name",
        "not_loaded",
        "request",
        "tag",
        "then",
    )

    def __init__(
        self,
        caller: RedisPipeline,
        tag: str,
        name: str,
        request: RedisRequest,
        then: Then,
        asked_at: float,
    ) -> None:
        self.caller = caller
        self.tag = tag
        self.name = name
        self.request = request
        self.then = then
        self.asked_at = asked_at
        self.led_on = 0
        self.by_itself = False
        """Whether it was refused with others, and goes by itself from now on."""
        self.moving = False
        """Whether its keys are just moving to the server that is asked next."""
        self.loads_with = False
        """Whether its library goes to the server before it."""
        self.loads_seen = 0
        """How often its library had been loaded over the connection when it was sent."""
        self.not_loaded: ResponseError | None = None
        """Why the server did not take its library."""

    def answered(self, connection: RedisConnection, reply: Reply) -> None:
        caller = self.caller
        if isinstance(reply, ResponseError):
            caller.failed(self, connection, reply)
            return
        caller.on_answer(self.name, caller.time() - self.asked_at)
        self.tell(reply, None)

    def refused(self, why: str) -> None:
        self.caller.refused(self, why)

    def tell(self, reply: Reply, error: DragomanError | None) -> None:
        """Tell the asker; one that fails must not keep others from their replies."""
        try:
            self.then(reply, error)
        except Exception:
            log.exception("redis_reply_not_taken", operation=self.name)


class _Batch:
    """Requests that one call runs, one after the other."""

    def __init__(self, askings: Sequence[_Asking]) -> None:
        self._askings = askings
        self.asked_at = askings[0].asked_at

    def answered(self, connection: RedisConnection, reply: Reply) -> None:
        if isinstance(reply, ResponseError):
            # The call was not run at all; each asker finds out what that means for it.
            for asking in self._askings:
                asking.by_itself = True
                asking.answered(connection, reply)
            return
        if len(reply) != len(self._askings):
            self.refused("cannot be understood")
            return
        caller = self._askings[0].caller
        now, on_answer = caller.time(), caller.on_answer
        for asking, own in zip(self._askings, reply, strict=True):
            if isinstance(own, ResponseError):
                caller.failed(asking, connection, own)
                continue
            on_answer(asking.name, now - asking.asked_at)
            try:
                asking.then(own, None)
            except Exception:
                log.exception("redis_reply_not_taken", operation=asking.name)

    def refused(self, why: str) -> None:
        for asking in self._askings:
            asking.refused(why)


class _Unread:
    """Takes a reply that is not read: the one to ASKING."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at

    def answered(self, connection: RedisConnection, reply: Reply) -> None:
        """Says nothing."""

    def refused(self, why: str) -> None:
        """Says nothing."""


class _Loading:
    """A library on its way to a server, for the request behind it."""

    def __init__(self, asking: _Asking) -> None:
        self._asking = asking
        self.asked_at = asking.asked_at

    def answered(self, connection: RedisConnection, reply: Reply) -> None:
        if isinstance(reply, ResponseError):
            self._asking.not_loaded = reply

    def refused(self, why: str) -> None:
        """The request behind it hears the same."""


def _ignore(name: str, seconds: float) -> None:
    """Counts nothing."""


class RedisPipeline:
    """Asks servers by tag; callers share connections and journeys without knowing it."""

    def __init__(
        self,
        servers: Servers,
        timeout_ms: int,
        on_answer: Callable[[str, float], None] | None = None,
        on_full: Callable[[], None] | None = None,
    ) -> None:
        """on_answer is told the name of each request that was answered, and its seconds.

        on_full is called for each request that a server refused because its memory is full.
        """
        self._servers = servers
        self._timeout_ms = timeout_ms
        self.on_answer = on_answer or _ignore
        self._on_full = on_full
        self.time: Callable[[], float] = self._time_at_first
        self._queues: dict[str, list[_Asking]] = {}
        self._flushing = False
        self._hurry: asyncio.TimerHandle | None = None
        self._closed = False
        self._connections: dict[str, RedisConnection] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self.exchanges = 0
        """Journeys to a server, each with one or more requests."""
        self.may_load = True
        """False once the server refused to take functions from the user of the connection."""
        self.waits_for_keys = 0
        """How often a request had to wait while its keys moved from one server to another."""

    def send(self, tag: str, name: str, request: RedisRequest, then: Then) -> None:
        """Send a request to the server that holds a tag; refused with DependencyDown in time.

        The reply is passed on where it is read, without a task or a future.
        """
        asking = _Asking(self, tag, name, request, then, self.time())
        lane = self._servers.lane(tag) if self._servers.one_tag_a_call else ANY_LANE
        queue = self._queues.get(lane)
        if queue is not None:
            # It was begun in this turn, or waits for earlier answers: it is sent all the same.
            queue.append(asking)
        else:
            self._queue(lane, asking)

    def ask(self, tag: str, name: str, request: RedisRequest) -> asyncio.Future[Reply]:
        """Send a request to the server that holds a tag, for one who waits for the reply."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.send(tag, name, request, partial(settle, reply))
        return reply

    async def masters(self) -> tuple[str, ...]:
        """Name all servers that hold keys; refused with DependencyDown."""
        try:
            return await self._servers.masters()
        except (RedisError, RedisClusterException, OSError) as error:
            raise DependencyDown(f"Redis cannot be reached ({error}).") from error

    def ask_master(self, lane: str, name: str, request: RedisRequest) -> asyncio.Future[Reply]:
        """Send a request that is about no tag to a server, such as one to look through its keys."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        then = partial(settle, reply)
        self._queue(lane, _Asking(self, "", name, request, then, self.time()))
        return reply

    def lane(self, tag: str) -> str:
        """Name the server that holds a tag, as far as it is known."""
        return self._servers.lane(tag)

    async def close(self) -> None:
        """Close the connections; pending requests are refused."""
        self._closed = True
        if self._hurry is not None:
            self._hurry.cancel()
        opening = tuple(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for lane in tuple(self._queues):
            self._refuse(lane, _LET_GO)
        for connection in tuple(self._connections.values()):
            connection.cut(_LET_GO)
        await self._servers.close()

    # --- out -------------------------------------------------------------------------------------

    def _time_at_first(self) -> float:
        """The event loop's time, which is asked directly from now on."""
        self.time = asyncio.get_running_loop().time
        return self.time()

    def _queue(self, lane: str, asking: _Asking) -> None:
        self._queues.setdefault(lane, []).append(asking)
        if self._closed:
            self._refuse(lane, _LET_GO)
        else:
            self._flush_soon()

    def _flush_soon(self) -> None:
        """Send what waits at the end of this turn: other tasks may add requests in it."""
        if self._queues and not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        for lane in tuple(self._queues):
            connection = self._connections.get(lane)
            if connection is None:
                self._reach(lane)
            elif connection.is_idle:
                self._send(connection, self._queues.pop(lane))
            elif self._hurry is None:
                loop = asyncio.get_running_loop()
                self._hurry = loop.call_later(_GATHER_SECONDS, self._send_anyway)

    def _send_anyway(self) -> None:
        """Send what has waited for earlier answers."""
        self._hurry = None
        for lane in tuple(self._queues):
            if connection := self._connections.get(lane):
                self._send(connection, self._queues.pop(lane))

    def _reach(self, lane: str) -> None:
        if lane not in self._opening:
            self._opening[lane] = asyncio.get_running_loop().create_task(self._open(lane))

    def _send(self, connection: RedisConnection, queue: Sequence[_Asking]) -> None:
        self.exchanges += 1
        commands: list[Command] = []
        askers: list[ReplyWaiter] = []
        batches: dict[tuple[str, str], list[_Asking]] = {}
        gathers, one_tag_a_call = len(queue) > 1, self._servers.one_tag_a_call
        for asking in queue:
            request = asking.request
            library = request.library
            if library is not None:
                if asking.loads_with:
                    connection.loads[library.name] += 1
                    commands.append(library.load)
                    askers.append(_Loading(asking))
                    asking.loads_with = False
                asking.loads_seen = connection.loads[library.name]
            if asking.moving:
                commands.append(_ASKING)
                askers.append(_Unread(asking.asked_at))
                asking.moving = False
            elif gathers and type(request) is FunctionCall and not asking.by_itself:
                together = request.place.together
                if together and request.is_short:
                    tag = asking.tag if one_tag_a_call else ""
                    batch = batches.get((together, tag))
                    if batch is None:
                        batches[together, tag] = [asking]
                    else:
                        batch.append(asking)
                    continue
            commands.append(request.command())
            askers.append(asking)
        # What may run without memory comes first: it is what frees slots.
        for kind in sorted(batches, reverse=True):
            askings = batches[kind]
            for start in range(0, len(askings), _MOST_TOGETHER):
                some = askings[start : start + _MOST_TOGETHER]
                if len(some) == 1:
                    commands.append(some[0].request.command())
                    askers.append(some[0])
                else:
                    calls: list[FunctionCall] = [each.request for each in some]  # type: ignore[misc]
                    commands.append(run_together(calls))
                    askers.append(_Batch(some))
        connection.ask(commands, askers)

    async def _open(self, lane: str) -> None:
        """Connect to a server; what is asked of it meanwhile waits in its queue."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                described = await self._servers.connection(lane)
                connection = await connect(described, self._timeout_ms)
        except TimeoutError:
            self._servers.broke(lane)
            self._refuse(lane, f"did not answer within {self._timeout_ms} ms")
        except (RedisError, OSError) as error:
            self._servers.broke(lane)
            self._refuse(lane, f"cannot be reached ({error})")
        else:
            connection.on_lost = partial(self._lost, lane)
            connection.on_idle = self._flush_soon
            self._connections[lane] = connection
            self._flush()
        finally:
            del self._opening[lane]

    def _lost(self, lane: str) -> None:
        del self._connections[lane]
        self._servers.broke(lane)
        self._flush_soon()

    # --- back ------------------------------------------------------------------------------------

    def failed(self, asking: _Asking, connection: RedisConnection, error: ResponseError) -> None:
        """Pass a request on to a server that knows the function and the keys, or say why not."""
        if self._led_on(asking, connection, error):
            return
        self.on_answer(asking.name, self.time() - asking.asked_at)
        asking.tell(None, self._failure(asking, error))

    def refused(self, asking: _Asking, why: str) -> None:
        """There will be no reply to what was sent."""
        asking.tell(None, self._down(f"{why}. {_UNKNOWN_OUTCOME}"))

    def _led_on(self, asking: _Asking, connection: RedisConnection, error: ResponseError) -> bool:
        """Try a request elsewhere or otherwise, if the error says how."""
        if isinstance(error, TryAgain):
            return self._try_again(asking)
        asking.led_on += 1
        if asking.led_on > _LED_ON_AT_MOST:
            return False
        if isinstance(error, FunctionNotFound):
            library = asking.request.library
            if library is None or asking.not_loaded is not None:
                return False
            # Those that were sent together load it once.
            asking.loads_with = connection.loads[library.name] == asking.loads_seen
            self._send(connection, (asking,))
            return True
        if isinstance(error, CrossSlot):
            # A Cluster behind one address.
            self._servers.one_tag_a_call = True
            self._send(connection, (asking,))
            return True
        if isinstance(error, AskError):
            asking.moving = not isinstance(error, MovedError)
            self._queue(self._servers.lane_named_by(error), asking)
            return True
        return False

    def _try_again(self, asking: _Asking) -> bool:
        """Ask anew in a moment, for as long as the asker is not late for it."""
        loop = asyncio.get_running_loop()
        if loop.time() - asking.asked_at > self._timeout_ms / 1000 * _MOVING_SHARE:
            return False
        asking.led_on = 0
        self.waits_for_keys += 1
        loop.call_later(_MOVING_SECONDS, self._ask_anew, asking)
        return True

    def _ask_anew(self, asking: _Asking) -> None:
        self._queue(self._servers.lane(asking.tag), asking)

    def _refuse(self, lane: str, why: str) -> None:
        """Nothing was sent of what waits for a server."""
        for asking in self._queues.pop(lane, ()):
            asking.tell(None, self._down(f"{why}."))

    def _failure(self, asking: _Asking, error: ResponseError) -> DragomanError:
        if asking.not_loaded is not None:
            if str(asking.not_loaded).startswith(_BROKEN_FUNCTIONS):
                return InternalError(f"Functions failed in Redis: {asking.not_loaded}")
            if str(asking.not_loaded).startswith(_OUT_OF_MEMORY):
                return self._full(asking.not_loaded)
            if not isinstance(asking.not_loaded, NotAllowed):
                # A replica that was a primary until now, or a server that is still loading.
                return self._down(f"cannot do it now ({asking.not_loaded}). Nothing was done.")
            self.may_load = False
            return self._down(
                f"does not take the functions of the ledger ({asking.not_loaded}). "
                "Its user needs the right to use FUNCTION LOAD and FCALL."
            )
        if str(error).startswith(_BROKEN_FUNCTION):
            return InternalError(f"A function failed in Redis: {error}")
        if str(error).startswith(_OUT_OF_MEMORY):
            return self._full(error)
        return self._down(f"cannot do it now ({error}). {_UNKNOWN_OUTCOME}")

    def _full(self, error: ResponseError) -> DependencyDown:
        if self._on_full is not None:
            self._on_full()
        return self._down(
            f"has no memory left ({error}). Nothing was done; give it more memory (maxmemory)."
        )

    def _down(self, what: str) -> DependencyDown:
        return DependencyDown(f"Redis {what}", retry_after_ms=self._timeout_ms)


def settle(waiting: asyncio.Future[Reply], reply: Reply, error: DragomanError | None) -> None:
    """Tell one who waits; it may have gone."""
    if waiting.done():
        return
    if error is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(reply)
