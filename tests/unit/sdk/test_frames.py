"""Frames as a client reads and writes them agree with what the library says of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame as LibraryFrame
from websockets.frames import Opcode
from websockets.protocol import SERVER, Protocol

from dragoman.sdk.transport.frames import Frame, FrameWriter, ServerFrameReader

MAX_BYTES = 200_000

contents = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=100),
    st.sampled_from([125, 126, 127, 65_535, 65_536, MAX_BYTES]).map(bytes),
)


class Heard:
    """What a reader made of the bytes it got."""

    def __init__(self) -> None:
        self.messages: list[Frame] = []
        self.rest: list[bytes] = []
        self.not_text = 0
        self.reader = ServerFrameReader(
            MAX_BYTES, self.messages.append, self.rest.append, self._count_not_text
        )

    def _count_not_text(self) -> None:
        self.not_text += 1


def server_frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return LibraryFrame(opcode, data, fin).serialize(mask=False)


def whole(content: Frame) -> bytes:
    if isinstance(content, str):
        return server_frame(Opcode.TEXT, content.encode())
    return server_frame(Opcode.BINARY, content)


def in_pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in (*pieces, data[at:]) if piece]


sizes = st.lists(st.integers(1, 400), max_size=40)


@given(st.lists(contents, max_size=8), sizes)
def test_messages_arrive_whole_and_in_order_in_whatever_pieces_they_come(
    messages: list[Frame], cut: list[int]
) -> None:
    heard = Heard()
    for piece in in_pieces(b"".join(map(whole, messages)), cut):
        heard.reader.feed(piece)
    assert heard.messages == messages
    assert heard.rest == []


@given(st.lists(st.binary(max_size=50), min_size=2, max_size=6), st.booleans(), sizes)
def test_a_message_in_fragments_is_put_together_with_pings_in_between(
    parts: list[bytes], is_text: bool, cut: list[int]
) -> None:
    if is_text:
        parts = [part.hex().encode() for part in parts]
    ping = server_frame(Opcode.PING, b"still there?")
    first = Opcode.TEXT if is_text else Opcode.BINARY
    frames = [
        server_frame(Opcode.CONT if number else first, part, fin=number == len(parts) - 1)
        for number, part in enumerate(parts)
    ]
    heard = Heard()
    for piece in in_pieces(ping.join(frames) + whole(b"next"), cut):
        heard.reader.feed(piece)
    together = b"".join(parts)
    assert heard.messages == [together.decode() if is_text else together, b"next"]
    assert heard.rest == [ping] * (len(parts) - 1)


def test_control_frames_go_to_the_library_one_by_one_and_whole() -> None:
    close = server_frame(Opcode.CLOSE, b"\x03\xe8bye")
    pong = server_frame(Opcode.PONG, b"")
    heard = Heard()
    heard.reader.feed(pong + whole("hello") + close[:3])
    heard.reader.feed(close[3:])
    assert heard.rest == [pong, close]
    assert heard.messages == ["hello"]


BROKEN = {
    "masked": bytes((0x82, 0x80 | 1)) + b"mask" + b"x",
    "reserved bit": b"\xc2\x01x",
    "unknown opcode": b"\x83\x01x",
    "nothing to continue": b"\x80\x01x",
    "too large": bytes((0x82, 127)) + (MAX_BYTES + 1).to_bytes(8, "big"),
    "control too large": bytes((0x89, 126, 0, 200)) + bytes(200),
}


@given(st.sampled_from(sorted(BROKEN)), st.binary(max_size=20))
def test_everything_from_a_broken_frame_on_goes_to_the_library(kind: str, after: bytes) -> None:
    heard = Heard()
    heard.reader.feed(whole(b"good") + BROKEN[kind])
    heard.reader.feed(after)
    assert heard.messages == [b"good"]
    assert b"".join(heard.rest) == BROKEN[kind] + after


def test_fragments_that_grow_too_large_and_a_message_inside_another_are_broken() -> None:
    half = server_frame(Opcode.BINARY, bytes(MAX_BYTES), fin=False)
    more = server_frame(Opcode.CONT, b"x", fin=True)
    begun = server_frame(Opcode.TEXT, b"one", fin=False)
    for frames, left in ((half + more, more), (begun + whole("two"), whole("two"))):
        heard = Heard()
        heard.reader.feed(frames)
        assert heard.messages == []
        assert heard.rest == [left]


def test_a_text_that_is_not_utf_8_is_told() -> None:
    heard = Heard()
    heard.reader.feed(server_frame(Opcode.TEXT, b"\xff\xfe"))
    heard.reader.feed(server_frame(Opcode.TEXT, b"\xc3", fin=False))
    heard.reader.feed(server_frame(Opcode.CONT, b"\x28"))
    assert heard.not_text == 2
    assert heard.messages == heard.rest == []


@given(st.lists(contents, min_size=1, max_size=8))
def test_a_server_reads_what_the_writer_wrote(messages: list[Frame]) -> None:
    writer, server = FrameWriter(), Protocol(SERVER, max_size=None)
    for message in messages:
        server.receive_data(writer.frame(message))
    read = []
    for frame in server.events_received():
        assert isinstance(frame, LibraryFrame)
        data = bytes(frame.data)
        read.append(data.decode() if frame.opcode is Opcode.TEXT else data)
    assert read == messages


def test_every_frame_has_a_mask_of_its_own() -> None:
    writer = FrameWriter()
    masks = {writer.frame(b"x")[2:6] for _ in range(3_000)}
    assert len(masks) > 2_990
