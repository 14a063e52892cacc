"""An endpoint for tests: its handler does as the messages say, and writes down what it saw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import TracebackType

from dragoman.auth import ApiKey, Authenticator, Permission, Principal, Role
from dragoman.clock import Clock
from dragoman.errors import InvalidMessage, NoCapacity, RateLimited, Unauthorized
from dragoman.ids import KeyId, TenantId
from dragoman.live.gateway import (
    Caller,
    CloseCode,
    Connection,
    ConnectionLimits,
    Connections,
    Endpoint,
)
from dragoman.live.protocol import (
    FROM_CLIENT,
    AudioChunk,
    ClientHeartbeat,
    ClientToScheduler,
    ServerHeartbeat,
    SessionClose,
    SessionInit,
    Utterance,
)

CLIENT_KEY = ApiKey("client-key")
NODE_KEY = ApiKey("node-key")
EAGER_KEY = ApiKey("used-too-often")
BROKEN_KEY = ApiKey("breaks-the-database")

LIMITS = ConnectionLimits(
    max_frame_bytes=100_000, queue_messages=8, queue_bytes=200_000, messages_per_second=1_000
)


class ScriptedHandler:
    """Answers heartbeats; the text of an utterance says how it should go wrong."""

    def __init__(self, transcript: list[str]) -> None:
        self.transcript = transcript
        self.connection: Connection

    async def opened(self, connection: Connection) -> None:
        self.connection = connection
        self.transcript.append("opened")

    async def received(self, message: ClientToScheduler, now: float) -> None:
        match message:
            case ClientHeartbeat(last_delivery_seq=seq):
                self.transcript.append(f"heartbeat {seq}")
                self.connection.send(ServerHeartbeat(next_chunk_seq=seq or 0))
            case Utterance(utterance_index=index, text=text):
                self.transcript.append(f"utterance {index} {text}")
                await self._act_on(text or "")
            case SessionClose(reason=reason):
                self.transcript.append("session close")
                self.connection.send(ServerHeartbeat(next_chunk_seq=99))
                self.connection.close(CloseCode.NORMAL, reason or "")
                assert not self.connection.send(ServerHeartbeat(next_chunk_seq=100))
            case AudioChunk() | SessionInit():
                self.transcript.append(type(message).__name__)

    async def _act_on(self, text: str) -> None:
        match text.split():
            case ["sleep", seconds]:
                await asyncio.sleep(float(seconds))
                self.transcript.append(f"slept {seconds}")
                self.connection.send(ServerHeartbeat(next_chunk_seq=0))
            case ["fail"]:
                raise ZeroDivisionError("a defect")
            case ["refuse"]:
                raise NoCapacity("all slots are taken", retry_after_ms=250)
            case ["close", code]:
                self.connection.close(CloseCode(int(code)), f"told to close with {code}")

    async def malformed(self, error: InvalidMessage) -> None:
        self.transcript.append(f"malformed {error.details['problem']}")

    async def closed(self, code: int, reason: str) -> None:
        self.transcript.append(f"closed {code}")


class TestKeys(Authenticator):
    """Knows a few keys; anyone without one is let in as a client, unless keys are required."""

    __test__ = False

    def __init__(self, *, required: bool = False) -> None:
        self.required = required
        self.on_revoked: dict[object, Callable[[], None]] = {}

    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        if key == BROKEN_KEY:
            raise ZeroDivisionError("a defect")
        if key == EAGER_KEY:
            raise RateLimited("too many wrong keys from this address")
        if key == NODE_KEY:
            return Principal(KeyId("k-2"), Role.NODE, TenantId("acme"))
        if key == CLIENT_KEY or (key is None and not self.required):
            return Principal(KeyId("k-1"), Role.CLIENT, TenantId("acme"))
        raise Unauthorized("the key is missing or wrong")

    def watch(self, principal: Principal, on_revoked: Callable[[], None]) -> Callable[[], None]:
        ticket = object()
        self.on_revoked[ticket] = on_revoked

        def stop() -> None:
            del self.on_revoked[ticket]

        return stop

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


def scripted_endpoint(
    transcript: list[str],
    clock: Clock,
    *,
    limits: ConnectionLimits = LIMITS,
    keys: TestKeys | None = None,
    handler: Callable[[Caller], ScriptedHandler] | None = None,
) -> Endpoint[ClientToScheduler]:
    """An endpoint whose handlers all write to one transcript."""
    return Endpoint(
        name="session",
        decoder=FROM_CLIENT,
        authenticator=keys or TestKeys(),
        permission=Permission.SESSION_SOCKET,
        handler=handler or (lambda _: ScriptedHandler(transcript)),
        limits=limits,
        connections=Connections(),
        clock=clock,
        random=Random(0),
        allowed_origins=frozenset({"https://app.example"}),
    )
