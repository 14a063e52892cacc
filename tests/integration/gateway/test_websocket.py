from __future__ import annotations

import asyncio
import base64
import gc
import socket
import weakref
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.integration.gateway.sockets import LOOPS, dialled, run, serving
from tests.unit.gateway.scripted import (
    LIMITS,
    NODE_KEY,
    ScriptedHandler,
    TestKeys,
    scripted_endpoint,
)

from dragoman.clock import SystemClock
from dragoman.live.gateway import CloseCode, Connection, ConnectionClosed, websocket
from dragoman.live.gateway.uvicorn_server import SocketProtocol
from dragoman.live.protocol import (
    ClientHeartbeat,
    ClientToScheduler,
    Error,
    ServerHeartbeat,
    SubProtocol,
    Utterance,
)


@pytest.fixture
def transcript() -> list[str]:
    return []


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([], None),
        (["dragoman.json.v1"], "dragoman.json.v1"),
        (["something.else", "dragoman.msgpack.v1"], "dragoman.msgpack.v1"),
    ],
)
def test_the_sub_protocol_is_one_that_was_offered(
    transcript: list[str], offered: list[str], chosen: str | None
) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url, dialled(url, offered) as client:
            assert client.websocket.subprotocol == chosen
            await client.send(ClientHeartbeat(last_delivery_seq=5))
            answer = await client.receive_frame()
            assert isinstance(answer, bytes) == (chosen == SubProtocol.MSGPACK.value)

    run(main)
    assert transcript == ["opened", "heartbeat 5", "closed 1000"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"offered": ["graphql-ws"]}, CloseCode.POLICY),
        ({"headers": {"Origin": "https://evil.example"}}, CloseCode.FORBIDDEN),
        ({"headers": {"Authorization": "Bearer wrong"}}, CloseCode.UNAUTHORIZED),
        ({"headers": {"Authorization": "Basic client-key"}}, CloseCode.UNAUTHORIZED),
        ({"headers": {"Authorization": f"Bearer {NODE_KEY.reveal()}"}}, CloseCode.FORBIDDEN),
        ({"headers": {}}, CloseCode.UNAUTHORIZED),
        ({"query": "?token=wrong"}, CloseCode.UNAUTHORIZED),
        ({"query": "?token=used-too-often"}, CloseCode.TOO_MANY),
        ({"query": "?token=breaks-the-database"}, CloseCode.INTERNAL_ERROR),
    ],
)
def test_who_may_not_come_in_is_accepted_and_closed_with_the_code(
    transcript: list[str], options: dict[str, Any], code: CloseCode
) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock(), keys=TestKeys(required=True))
        async with serving(endpoint) as url:
            headers = {"Authorization": "Bearer client-key", **options.get("headers", {})}
            if "query" in options or options.get("headers") == {}:
                headers = {}
            url += options.get("query", "")
            async with dialled(url, options.get("offered", ()), headers) as client:
                with pytest.raises(ConnectionClosed) as closed:
                    await client.receive()
                assert closed.value.code == code
                assert closed.value.reason

    run(main)
    assert transcript == []


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {"Authorization": "Bearer client-key"}),
        ("", {"authorization": "bearer client-key"}),
        ("?token=client-key", {}),
        ("?token=client-key", {"Origin": "https://app.example"}),
    ],
)
def test_a_key_may_come_in_a_header_or_in_the_query(
    transcript: list[str], query: str, headers: dict[str, str]
) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock(), keys=TestKeys(required=True))
        async with serving(endpoint) as url, dialled(url + query, headers=headers) as client:
            await client.send(ClientHeartbeat(last_delivery_seq=1))
            assert await client.receive() == ServerHeartbeat(next_chunk_seq=1)

    run(main)


def test_a_page_of_the_server_itself_may_connect(transcript: list[str]) -> None:
    async def main() -> None:
        async with serving(scripted_endpoint(transcript, SystemClock())) as url:
            origin = f"http://{urlsplit(url).netloc}"
            async with dialled(url, headers={"Origin": origin}) as client:
                await client.send(ClientHeartbeat(last_delivery_seq=1))
                assert await client.receive() == ServerHeartbeat(next_chunk_seq=1)

    run(main)


def test_a_drain_turns_callers_away_and_closes_those_who_are_in(transcript: list[str]) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url, dialled(url) as client:
            await client.send(ClientHeartbeat(last_delivery_seq=1))
            await client.receive()
            endpoint.connections.refuse_new()
            async with dialled(url) as late:
                with pytest.raises(ConnectionClosed, match="1001"):
                    await late.receive()
            endpoint.connections.close_all(CloseCode.DRAINING)
            await endpoint.connections.wait_empty()
            with pytest.raises(ConnectionClosed, match="1001"):
                await client.receive()

    run(main)
    assert transcript == ["opened", "heartbeat 1", "closed 1001"]


@pytest.mark.parametrize("code", [code for code in CloseCode if code != CloseCode.ABNORMAL])
def test_both_ends_see_the_code_a_handler_closes_with(
    transcript: list[str], code: CloseCode
) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url, dialled(url) as client:
            await client.send(Utterance(utterance_index=0, text=f"close {code.value}"))
            with pytest.raises(ConnectionClosed) as closed:
                await client.receive()
            assert closed.value.code == code
            await endpoint.connections.wait_empty()

    run(main)
    assert transcript[-1] == f"closed {code.value}"


def test_a_bad_first_message_is_answered_and_closed(transcript: list[str]) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url, dialled(url) as client:
            await client.send_frame("{}")
            answer = await client.receive()
            assert isinstance(answer, Error)
            assert answer.code == "INVALID_MESSAGE"
            with pytest.raises(ConnectionClosed, match="4400"):
                await client.receive()

    run(main)
    assert transcript == ["opened", "malformed unknown_type", "closed 4400"]


def test_too_many_messages_are_answered_once_and_closed(transcript: list[str]) -> None:
    async def main() -> list[str]:
        limits = replace(LIMITS, messages_per_second=5)
        endpoint = scripted_endpoint(transcript, SystemClock(), limits=limits)
        heard: list[str] = []
        async with serving(endpoint) as url, dialled(url) as client:
            for seq in range(50):
                await client.send(ClientHeartbeat(last_delivery_seq=seq))
            try:
                while True:
                    answer = await client.receive()
                    heard.append(answer.code if isinstance(answer, Error) else "heartbeat")
            except ConnectionClosed as closed:
                heard.append(str(closed.code))
        return heard

    heard = run(main)
    assert heard[-2:] == ["RATE_LIMITED", "4429"]
    assert set(heard[:-2]) == {"heartbeat"}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_frame_over_the_limit_closes_with_too_large_and_the_handler_hears_of_it(
    transcript: list[str], loop: str
) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url, dialled(url) as client:
            await client.send_frame("x" * (LIMITS.max_frame_bytes + 1))
            with pytest.raises(ConnectionClosed, match="1009"):
                await client.receive()
            await endpoint.connections.wait_empty()

    run(main, loop)
    assert transcript == ["opened", "closed 1009"]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("busy", [True, False])
def test_a_peer_that_vanishes_is_seen_as_an_abnormal_end(
    transcript: list[str], loop: str, busy: bool
) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url, dialled(url) as client:
            await client.send(ClientHeartbeat(last_delivery_seq=1))
            await client.receive()
            if busy:
                await client.send(Utterance(utterance_index=0, text="sleep 0.05"))
            client.break_off()
            await endpoint.connections.wait_empty()

    run(main, loop)
    assert transcript[-1] == "closed 1006"
    assert sum(line.startswith("closed") for line in transcript) == 1


def test_a_close_without_a_code_is_not_taken_for_a_broken_socket(transcript: list[str]) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url:
            reader, writer = await shake_hands(url)
            writer.write(bytes([0x88, 0x80, 0, 0, 0, 0]))  # a close frame, masked and empty
            while await reader.read(1024):
                pass
            writer.close()
            await writer.wait_closed()
            await endpoint.connections.wait_empty()

    run(main)
    assert transcript == ["opened", "closed 1005"]


async def shake_hands(
    url: str, receive_buffer_bytes: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket by hand, for what no client library would do."""
    parts = urlsplit(url)
    sock = socket.socket()
    if receive_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=4096)
    key = base64.b64encode(b"sixteen bytes ok").decode()
    writer.write(
        f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head.splitlines()[0]
    return reader, writer


class Flooding(ScriptedHandler):
    """Sends until its peer is closed as too slow, letting the socket take what it will."""

    def __init__(self, transcript: list[str]) -> None:
        super().__init__(transcript)
        self.gave_up = asyncio.Event()

    async def opened(self, connection: Connection) -> None:
        await super().opened(connection)
        for _ in range(10_000):
            if not connection.send(Error(code="X", message="x" * 50_000)):
                break
            await asyncio.sleep(0)
        self.transcript.append(f"{connection.queued_messages} kept")
        self.gave_up.set()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_stops_reading_is_closed_as_too_slow_and_its_socket_is_dropped(
    transcript: list[str], loop: str
) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(
            transcript,
            SystemClock(),
            limits=replace(LIMITS, close_seconds=0.1),
            handler=lambda _: Flooding(transcript),
        )
        async with serving(endpoint) as url:
            _, writer = await shake_hands(url, receive_buffer_bytes=4096)
            await endpoint.connections.wait_empty()
            writer.transport.abort()

    run(main, loop)
    assert transcript == ["opened", "1 kept", "closed 4429"]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slow_peer_that_reads_again_in_time_is_told_that_it_was_too_slow(
    transcript: list[str], loop: str
) -> None:
    async def main() -> None:
        handler = Flooding(transcript)
        endpoint = scripted_endpoint(transcript, SystemClock(), handler=lambda _: handler)
        async with serving(endpoint) as url:
            reader, writer = await shake_hands(url, receive_buffer_bytes=4096)
            await handler.gave_up.wait()
            tail = b""
            while chunk := await reader.read(65_536):
                tail = (tail + chunk)[-200:]
                if (at := tail.find((4429).to_bytes(2, "big"))) >= 0 and tail[at - 2] == 0x88:
                    break
            writer.close()
            await writer.wait_closed()
            await endpoint.connections.wait_empty()

    run(main, loop)
    assert transcript == ["opened", "1 kept", "closed 4429"]


def test_a_slow_peer_gets_everything_in_order_when_it_reads_in_time(transcript: list[str]) -> None:
    class Sending(ScriptedHandler):
        async def opened(self, connection: Connection) -> None:
            await super().opened(connection)
            for number in range(300):
                assert connection.send(Error(code=str(number), message="x" * 50_000))
            self.transcript.append("queued" if connection.queued_messages else "not queued")
            connection.close(CloseCode.NORMAL)

    async def main() -> list[str]:
        endpoint = scripted_endpoint(
            transcript,
            SystemClock(),
            limits=replace(LIMITS, queue_messages=1000, queue_bytes=2**30),
            handler=lambda _: Sending(transcript),
        )
        heard: list[str] = []
        async with serving(endpoint) as url, dialled(url) as client:
            try:
                while True:
                    answer = await client.receive()
                    assert isinstance(answer, Error)
                    heard.append(answer.code)
            except ConnectionClosed as closed:
                heard.append(str(closed.code))
        return heard

    assert run(main) == [*map(str, range(300)), "1000"]
    assert transcript == ["opened", "queued", "closed 1000"]


def test_hundreds_of_connections_that_come_and_go_leave_nothing(transcript: list[str]) -> None:
    async def main() -> None:
        endpoint = scripted_endpoint(transcript, SystemClock())

        async def visit(url: str, number: int) -> None:
            async with dialled(url) as client:
                await client.send(ClientHeartbeat(last_delivery_seq=number))
                await client.receive()
                if number % 3 == 0:
                    client.break_off()
                elif number % 3 == 1:
                    await client.send(Utterance(utterance_index=0, text="close 4409"))

        async with serving(endpoint) as url:
            for batch in range(10):
                await asyncio.gather(*(visit(url, 20 * batch + number) for number in range(20)))
            await endpoint.connections.wait_empty()
        assert endpoint.connections.counts == {}

    run(main)
    assert transcript.count("opened") == 200
    assert sum(line.startswith("closed") for line in transcript) == 200


@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_sends_on_after_the_close_ends_with_its_own_close(
    transcript: list[str], loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but the peer's close ends the socket.
    for_ever = property(lambda _: 3_600.0, lambda _, seconds: None)
    monkeypatch.setattr(SocketProtocol, "close_timeout", for_ever, raising=False)
    monkeypatch.setattr(websocket, "_LINGER_SECONDS", 3_600.0)

    class Answering(ScriptedHandler):
        """Handles every message where it arrives, as sessions and nodes mostly do."""

        def received(self, message: ClientToScheduler, now: float) -> None:  # type: ignore[override]
            self.connection.send(ServerHeartbeat(next_chunk_seq=0))

    async def main() -> bytes:
        endpoint = scripted_endpoint(
            transcript,
            SystemClock(),
            limits=replace(LIMITS, messages_per_second=5),
            handler=lambda _: Answering(transcript),
        )
        endpoint = replace(endpoint, at_once=True)
        async with serving(endpoint) as url:
            reader, writer = await shake_hands(url)
            beat = b'{"type":"client_heartbeat"}'
            frame = bytes((0x81, 0x80 | len(beat))) + bytes(4) + beat
            own_close = b"\x88\x82" + bytes(4) + (4429).to_bytes(2, "big")
            writer.write(frame)
            await reader.readuntil(b"}")
            writer.write(frame * 300 + own_close)
            heard = await reader.read(-1)  # up to the end of the socket
            writer.close()
            return heard

    heard = run(main, loop)
    assert heard.count(b"RATE_LIMITED") == 1
    assert (4429).to_bytes(2, "big") in heard


@pytest.mark.parametrize("loop", LOOPS)
def test_a_socket_that_has_ended_is_forgotten_at_once(
    transcript: list[str], loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Peers that come back again and again would otherwise hold the memory of each time.
    monkeypatch.setattr(websocket, "_LINGER_SECONDS", 3_600.0)
    alive: weakref.WeakSet[SocketProtocol] = weakref.WeakSet()
    begin = SocketProtocol.__init__

    def noted(self: SocketProtocol, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        alive.add(self)

    monkeypatch.setattr(SocketProtocol, "__init__", noted)

    async def main() -> int:
        endpoint = scripted_endpoint(transcript, SystemClock())
        async with serving(endpoint) as url:
            for _ in range(20):
                async with dialled(url) as client:
                    await client.send(ClientHeartbeat(last_delivery_seq=0))
                    await client.receive()
            seen = len(alive)
            async with asyncio.timeout(60):
                while alive:
                    await asyncio.sleep(0.01)
                    gc.collect()
        return seen

    assert run(main, loop) > 0
