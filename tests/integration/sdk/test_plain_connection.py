"""A connection whose messages pass the library by still keeps every rule of a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import Frame, Opcode

from dragoman.live.protocol import (
    Error,
    Message,
    NodeDrain,
    SchedulerToNode,
    SubProtocol,
    encode,
)
from dragoman.sdk.transport import (
    NODE_DOOR,
    HandsOver,
    LinkClosed,
    SendsNow,
    Unreachable,
    WebSocketDoorConnect,
    WebSocketLink,
    listen,
)

PATIENCE_SECONDS = 30.0
Server = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def linked(server: Server) -> AsyncIterator[WebSocketLink[SchedulerToNode]]:
    """A link to a server of the test's own."""
    subprotocols = [sub.value for sub in SubProtocol]
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with serve(server, "127.0.0.1", 0, subprotocols=subprotocols) as listening:  # type: ignore[arg-type]
            port = next(iter(listening.sockets)).getsockname()[1]
            link = await WebSocketDoorConnect(f"ws://127.0.0.1:{port}", NODE_DOOR)()
            try:
                yield link
            finally:
                await link.close()


def told(code: str) -> bytes:
    frame = encode(Error(code, "words"), SubProtocol.MSGPACK)
    assert isinstance(frame, bytes)
    return frame


async def heard_until_closed(
    link: WebSocketLink[SchedulerToNode],
) -> tuple[list[str], list[str], LinkClosed]:
    codes: list[str] = []
    problems: list[str] = []

    def hear(message: SchedulerToNode) -> None:
        assert isinstance(message, Error)
        codes.append(message.code)

    with pytest.raises(LinkClosed) as closed:
        await listen(link, hear, lambda error: problems.append(error.message))
    return codes, problems, closed.value


async def _listened(link: WebSocketLink[SchedulerToNode]) -> None:
    _, _, closed = await heard_until_closed(link)
    raise closed


def test_messages_are_handed_over_in_order_also_those_that_came_before_the_listener() -> None:
    async def server(socket: ServerConnection) -> None:
        for number in range(50):
            await socket.send(told(str(number)))
        await socket.recv()
        for number in range(50, 100):
            await socket.send(told(str(number)))
        await socket.close(4409, "enough")

    async def scenario() -> None:
        async with linked(server) as link:
            first = await link.receive()
            assert isinstance(first, Error)
            await link.send(NodeDrain("go on"))
            codes, problems, closed = await heard_until_closed(link)
            assert [first.code, *codes] == [str(number) for number in range(100)]
            assert problems == []
            assert (closed.code, closed.reason) == (4409, "enough")

    asyncio.run(scenario())


def test_the_link_can_do_what_the_quick_path_asks_for() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async def scenario() -> None:
        async with linked(server) as link:
            assert isinstance(link, SendsNow)
            assert isinstance(link, HandsOver)

    asyncio.run(scenario())


def test_a_ping_is_answered_and_a_malformed_message_is_passed_over() -> None:
    async def server(socket: ServerConnection) -> None:
        await (await socket.ping())
        await socket.send(b"\xc1 not MessagePack")
        await socket.send("a text frame, where a binary one is expected")
        await socket.send(told("AFTER"))
        await socket.close()

    async def scenario() -> None:
        async with linked(server) as link:
            codes, problems, closed = await heard_until_closed(link)
            assert codes == ["AFTER"]
            assert len(problems) == 2
            assert closed.code == 1000

    asyncio.run(scenario())


def test_a_message_in_fragments_is_heard_whole() -> None:
    async def server(socket: ServerConnection) -> None:
        data = told("LONG")
        await socket.send([data[:5], data[5:9], data[9:]])
        await socket.close()

    async def scenario() -> None:
        async with linked(server) as link:
            codes, _, _ = await heard_until_closed(link)
            assert codes == ["LONG"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (Frame(Opcode.TEXT, b"\xff\xfe").serialize(mask=False), 1007),
        (Frame(Opcode.BINARY, b"masked").serialize(mask=True), 1002),
        (b"\x83\x00", 1002),
        (bytes((0x82, 127)) + (1 << 40).to_bytes(8, "big"), 1009),
    ],
    ids=["not UTF-8", "masked", "unknown opcode", "too large"],
)
def test_a_server_that_breaks_the_rules_is_told_which(sent: bytes, code: int) -> None:
    closed_with: list[int | None] = []

    async def server(socket: ServerConnection) -> None:
        socket.transport.write(sent)
        await socket.wait_closed()
        closed_with.append(socket.close_code)

    async def scenario() -> None:
        async with linked(server) as link:
            await heard_until_closed(link)
        assert closed_with == [code]

    asyncio.run(scenario())


def test_what_the_listener_raises_ends_the_listening_and_nothing_is_heard_after_it() -> None:
    async def server(socket: ServerConnection) -> None:
        for _ in range(3):
            await socket.send(told("ONE"))
        await socket.wait_closed()

    heard: list[Message] = []

    def hear(message: Message) -> None:
        heard.append(message)
        raise ValueError("no more")

    async def scenario() -> None:
        async with linked(server) as link:
            with pytest.raises(ValueError, match="no more"):
                await listen(link, hear, lambda error: None)
        assert len(heard) == 1

    asyncio.run(scenario())


def test_a_slow_reader_makes_the_sender_wait_and_gets_everything_in_order() -> None:
    got: list[int] = []
    read_on = asyncio.Event()
    big = "x" * 100_000

    async def server(socket: ServerConnection) -> None:
        await read_on.wait()
        async for frame in socket:
            assert isinstance(frame, bytes)
            got.append(len(frame))
            if len(got) == 200:
                await socket.close()

    async def scenario() -> None:
        async with linked(server) as link:
            sent = 0
            while link.send_now(NodeDrain(big)):
                sent += 1
                assert sent < 10_000, "the network never filled up"
            read_on.set()
            for _ in range(200 - sent):
                await link.send(NodeDrain(big))
            await heard_until_closed(link)
        assert len(got) == 200

    asyncio.run(scenario())


def test_a_link_that_has_ended_says_how_whatever_is_tried_on_it() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.close(4401, "no key")

    async def scenario() -> None:
        async with linked(server) as link:
            for attempt in (link.send(NodeDrain()), link.receive(), _listened(link)):
                with pytest.raises(LinkClosed) as closed:
                    await attempt
                assert closed.value.code == 4401
            assert not link.send_now(NodeDrain())

    asyncio.run(scenario())


def test_a_connection_that_is_cut_without_a_word_ends_with_1006() -> None:
    async def server(socket: ServerConnection) -> None:
        await socket.send(told("LAST"))
        socket.transport.abort()

    async def scenario() -> None:
        async with linked(server) as link:
            _, _, closed = await heard_until_closed(link)
            assert closed.code == 1006

    asyncio.run(scenario())


@pytest.mark.parametrize("pieces", [1, 7, 60])
def test_a_handshake_in_pieces_with_the_first_message_right_behind_it(pieces: int) -> None:
    """Some proxies cut the answer anywhere, and others pass on much at once."""

    async def proxied(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        behind, towards = await asyncio.open_connection("127.0.0.1", port)
        towards.write(await reader.readuntil(b"\r\n\r\n"))
        answer = await behind.readuntil(b"\r\n\r\n")
        answer += await behind.readexactly(2 + len(told("FIRST")))
        size = max(1, len(answer) // pieces)
        for at in range(0, len(answer), size):
            writer.write(answer[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
        while data := await reader.read(65_536):
            towards.write(data)
        towards.close()
        writer.close()

    async def server(socket: ServerConnection) -> None:
        await socket.send(told("FIRST"))
        await socket.wait_closed()

    async def scenario() -> None:
        subprotocols = [sub.value for sub in SubProtocol]
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            serve(server, "127.0.0.1", 0, subprotocols=subprotocols) as listening,  # type: ignore[arg-type]
        ):
            port = next(iter(listening.sockets)).getsockname()[1]
            proxy = await asyncio.start_server(
                lambda reader, writer: proxied(reader, writer, port), "127.0.0.1", 0
            )
            proxy_port = proxy.sockets[0].getsockname()[1]
            link = await WebSocketDoorConnect(f"ws://127.0.0.1:{proxy_port}", NODE_DOOR)()
            first = await link.receive()
            assert isinstance(first, Error)
            assert first.code == "FIRST"
            await link.close()
            proxy.close()

    asyncio.run(scenario())


def test_a_server_that_is_no_websocket_is_unreachable_with_its_status() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(Unreachable, match="404"):
                await WebSocketDoorConnect(f"ws://127.0.0.1:{port}", NODE_DOOR)()
        server.close()

    asyncio.run(scenario())
