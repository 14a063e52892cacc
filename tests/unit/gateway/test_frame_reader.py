"""Frames come out as messages, are counted one and all, and are read a bounded number at a time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from dragoman.live.gateway import CloseCode
from dragoman.live.gateway.frame_reader import (
    BINARY,
    FRAMES_PER_TURN,
    MAX_FRAGMENTS,
    TEXT,
    FrameReader,
    frame_head,
)
from dragoman.live.gateway.wire import NO_MESSAGE

MAX_BYTES = 100_000

texts = st.text(max_size=300).map(lambda text: Frame(Opcode.TEXT, text.encode()))
blobs = st.one_of(st.binary(max_size=300), st.integers(126, 70_000).map(bytes)).map(
    lambda data: Frame(Opcode.BINARY, data)
)
pings = st.binary(max_size=125).map(lambda data: Frame(Opcode.PING, data))
cut_places = st.lists(st.integers(0, 10**6))


class Sink:
    """Notes what a reader finds: messages as they are, the rest as lists."""

    def __init__(self, room_bytes: int = 1 << 40) -> None:
        self.found: list[object] = []
        self.charged = 0
        self.held_bytes = 0
        self.room_bytes = room_bytes

    def message(self, frame: object) -> None:
        self.charged += 1
        if frame is not NO_MESSAGE:
            self.found.append(frame)

    def must_wait(self, waits: object) -> None:
        self.found.append(["waits", waits])

    def control(self, data: bytes) -> None:
        self.found.append(["control", data])

    def broken(self, data: bytes) -> None:
        self.found.append(["broken", data])

    def refused(self, code: CloseCode, reason: str) -> None:
        self.found.append(["refused", int(code)])

    def holds(self, change_bytes: int) -> bool:
        self.held_bytes += change_bytes
        return self.held_bytes <= self.room_bytes


def masked(frame: Frame) -> bytes:
    return frame.serialize(mask=True)


def in_fragments(message: Frame, cuts: list[int]) -> list[Frame]:
    """The same message in several frames."""
    data = bytes(message.data)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    parts = [data[start:end] for start, end in pairwise(places)]
    return [
        Frame(Opcode.CONT if number else message.opcode, part, fin=number == len(parts) - 1)
        for number, part in enumerate(parts)
    ]


def feed(reader: FrameReader, data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        reader.feed(data[start:end])
        while reader.unread:
            reader.go_on()


def fed(data: bytes, cuts: list[int]) -> Sink:
    sink = Sink()
    feed(FrameReader(MAX_BYTES, sink), data, cuts)
    return sink


def content(message: Frame) -> object:
    payload = bytes(message.data)
    return payload.decode() if message.opcode is Opcode.TEXT else payload


@given(st.lists(st.one_of(texts, blobs, pings), max_size=8), cut_places)
def test_messages_and_control_frames_come_out_whole_and_in_order_however_they_are_cut(
    frames: list[Frame], cuts: list[int]
) -> None:
    written = [masked(frame) for frame in frames]
    expected: list[object] = []
    for frame, data in zip(frames, written, strict=True):
        is_ping = frame.opcode is Opcode.PING
        expected.append(["control", data] if is_ping else content(frame))
    sink = fed(b"".join(written), cuts)
    assert sink.found == expected
    assert sink.charged == len(frames)
    assert sink.held_bytes == 0


@given(
    st.lists(
        st.tuples(st.one_of(texts, blobs), st.lists(st.integers(0, 10**6), max_size=5), pings)
    ),
    cut_places,
)
def test_fragments_are_put_together_with_pings_between_them_and_each_is_charged(
    messages: list[tuple[Frame, list[int], Frame]], cuts: list[int]
) -> None:
    frames: list[Frame] = []
    expected: list[object] = []
    for message, places, ping in messages:
        fragments = in_fragments(message, places)
        frames += [fragments[0], ping, *fragments[1:]]
        expected.append(["control", b""])
        expected.append(content(message))
        if len(fragments) == 1:
            expected[-2:] = reversed(expected[-2:])
    sink = fed(b"".join(map(masked, frames)), cuts)
    found = [["control", b""] if isinstance(item, list) else item for item in sink.found]
    assert found == expected
    assert sink.charged == len(frames)
    assert sink.held_bytes == 0


def test_no_more_frames_are_read_in_one_turn_than_are_allowed() -> None:
    kinds = {
        "pings": [Frame(Opcode.PING, b"")] * 10_000,
        "fragments": [Frame(Opcode.TEXT, b"", fin=False)]
        + [Frame(Opcode.CONT, b"", fin=False)] * (MAX_FRAGMENTS - 1),
        "messages": [Frame(Opcode.BINARY, b"")] * 10_000,
    }
    for kind, frames in kinds.items():
        sink = Sink()
        reader = FrameReader(MAX_BYTES, sink)
        reader.feed(b"".join(map(masked, frames)))
        turns = 1
        assert sink.charged == FRAMES_PER_TURN, kind
        while reader.unread:
            before = sink.charged
            reader.go_on()
            turns += 1
            assert sink.charged - before <= FRAMES_PER_TURN, kind
        assert sink.charged == len(frames), kind
        assert turns == -(-len(frames) // FRAMES_PER_TURN), kind


def test_a_message_in_too_many_fragments_is_refused() -> None:
    frames = [
        Frame(Opcode.TEXT, b"", fin=False),
        *[Frame(Opcode.CONT, b"", fin=False)] * MAX_FRAGMENTS,
    ]
    sink = fed(b"".join(map(masked, frames)), [])
    assert sink.found == [["refused", 1008]]
    assert sink.charged == MAX_FRAGMENTS
    assert sink.held_bytes == 0


def test_fragments_over_the_limit_together_are_refused_before_the_body_has_come() -> None:
    first = masked(Frame(Opcode.BINARY, bytes(MAX_BYTES), fin=False))
    head = masked(Frame(Opcode.CONT, b"x"))[:6]
    assert fed(first + head, []).found == [["refused", 1009]]


def test_a_message_inside_another_is_refused() -> None:
    first = masked(Frame(Opcode.TEXT, b"a", fin=False))
    for begun in (Frame(Opcode.TEXT, b"b"), Frame(Opcode.BINARY, b"b", fin=False)):
        assert fed(first + masked(begun), []).found == [["refused", 1002]]


def test_fragments_of_a_text_that_is_none_are_refused() -> None:
    frames = in_fragments(Frame(Opcode.TEXT, b"\xff\xfe"), [1])
    assert fed(b"".join(map(masked, frames)), []).found == [["refused", 1007]]


def test_a_letter_may_be_cut_by_fragments() -> None:
    frames = in_fragments(Frame(Opcode.TEXT, "ü".encode()), [1])
    assert fed(b"".join(map(masked, frames)), []).found == ["ü"]


def test_what_is_not_whole_counts_until_it_is_or_the_socket_ends() -> None:
    sink = Sink()
    reader = FrameReader(MAX_BYTES, sink)
    whole = masked(Frame(Opcode.BINARY, bytes(50_000)))
    reader.feed(whole[:40_000])
    assert sink.held_bytes == 40_000
    reader.feed(whole[40_000:])
    assert sink.held_bytes == 0
    reader.feed(masked(Frame(Opcode.BINARY, bytes(30_000), fin=False)))
    assert sink.held_bytes == 30_000
    reader.end()
    assert sink.held_bytes == 0


def test_a_peer_for_which_there_is_no_room_is_refused_and_holds_nothing() -> None:
    sink = Sink(room_bytes=10_000)
    reader = FrameReader(MAX_BYTES, sink)
    reader.feed(masked(Frame(Opcode.BINARY, bytes(50_000)))[:20_000])
    assert sink.found == [["refused", 4429]]
    assert sink.held_bytes == 0
    reader.feed(bytes(10))
    assert sink.found == [["refused", 4429]]


def test_after_the_end_only_a_close_frame_is_passed_on() -> None:
    sink = Sink()
    reader = FrameReader(MAX_BYTES, sink)
    reader.only_close()
    close = masked(Frame(Opcode.CLOSE, b"\x03\xe8"))
    frames = [Frame(Opcode.PING, b""), Frame(Opcode.TEXT, b"a", fin=False), Frame(Opcode.CONT, b"")]
    feed(reader, b"".join(map(masked, frames)) + close, [])
    assert sink.found == [["control", close]]


@given(st.binary(min_size=1, max_size=400), cut_places)
def test_no_bytes_make_it_fail(data: bytes, cuts: list[int]) -> None:
    fed(data, cuts)


def test_what_breaks_the_rules_is_left_to_the_library() -> None:
    unmasked = frame_head(BINARY, 3) + b"abc"
    too_large = masked(Frame(Opcode.BINARY, bytes(MAX_BYTES + 1)))
    not_text = masked(Frame(Opcode.TEXT, b"\xff\xfe"))
    reserved = bytes((0xC2, 0x80)) + bytes(4)
    no_beginning = masked(Frame(Opcode.CONT, b"abc"))
    long_ping = bytes((0x89, 0xFE, 0, 126)) + bytes(130)
    for odd in (unmasked, too_large, not_text, reserved, no_beginning, long_ping):
        assert fed(odd, []).found == [["broken", odd]]


def test_a_large_frame_is_given_away_before_its_body_has_come() -> None:
    head = masked(Frame(Opcode.BINARY, bytes(MAX_BYTES + 1)))[:14]
    assert fed(head, []).found == [["broken", head]]


@given(
    st.one_of(st.text(max_size=200), st.binary(max_size=200), st.integers(126, 70_000).map(bytes))
)
def test_what_is_written_the_library_reads(message: str | bytes) -> None:
    reader = StreamReader()
    first, data = (TEXT, message.encode()) if isinstance(message, str) else (BINARY, message)
    reader.feed_data(frame_head(first, len(data)) + data)
    parse = Frame.parse(reader.read_exact, mask=False)
    try:
        next(parse)
        raise AssertionError("the frame is not whole")
    except StopIteration as stop:
        frame: Frame = stop.value
    assert frame.fin
    assert bytes(frame.data) == (message.encode() if isinstance(message, str) else message)
    assert frame.opcode is (Opcode.TEXT if isinstance(message, str) else Opcode.BINARY)
