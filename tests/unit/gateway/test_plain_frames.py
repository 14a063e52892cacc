"""Plain messages are read here, and everything else reaches the library as it came."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from dragoman.live.gateway.plain_frames import PlainFrames, plain_frame

MAX_BYTES = 100_000

texts = st.text(max_size=300).map(lambda text: Frame(Opcode.TEXT, text.encode()))
blobs = st.one_of(st.binary(max_size=300), st.integers(126, 70_000).map(bytes)).map(
    lambda data: Frame(Opcode.BINARY, data)
)
pings = st.binary(max_size=125).map(lambda data: Frame(Opcode.PING, data))
fragments = st.binary(max_size=50).map(lambda data: Frame(Opcode.BINARY, data, fin=False))


def masked(frame: Frame) -> bytes:
    return frame.serialize(mask=True)


def fed(data: bytes, cuts: list[int]) -> list[object]:
    """What comes out, in order: messages as they are, what is left to the library as a list."""
    found: list[object] = []
    frames = PlainFrames(MAX_BYTES, found.append, lambda rest: found.append([rest]))
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        frames.feed(data[start:end])
    return found


@given(st.lists(st.one_of(texts, blobs, pings), max_size=8), st.lists(st.integers(0, 10**6)))
def test_messages_and_control_frames_come_out_whole_and_in_order_however_they_are_cut(
    frames: list[Frame], cuts: list[int]
) -> None:
    written = [masked(frame) for frame in frames]
    expected: list[object] = []
    for frame, data in zip(frames, written, strict=True):
        if frame.opcode is Opcode.PING:
            expected.append([data])
        else:
            payload = bytes(frame.data)
            expected.append(payload.decode() if frame.opcode is Opcode.TEXT else payload)
    assert fed(b"".join(written), cuts) == expected


@given(
    st.lists(texts, max_size=3),
    fragments,
    st.lists(blobs, max_size=3),
    st.lists(st.integers(0, 10**6)),
)
def test_from_the_first_fragment_on_the_library_gets_every_byte(
    before: list[Frame], odd: Frame, after: list[Frame], cuts: list[int]
) -> None:
    left = b"".join(map(masked, [odd, *after]))
    found = fed(b"".join(map(masked, before)) + left, cuts)
    messages = [item for item in found if not isinstance(item, list)]
    assert messages == [bytes(frame.data).decode() for frame in before]
    assert b"".join(item[0] for item in found if isinstance(item, list)) == left


@given(st.binary(min_size=1, max_size=400), st.lists(st.integers(0, 10**6)))
def test_no_bytes_make_it_fail(data: bytes, cuts: list[int]) -> None:
    fed(data, cuts)


def test_what_breaks_the_rules_is_left_to_the_library() -> None:
    unmasked = plain_frame(b"abc")
    too_large = masked(Frame(Opcode.BINARY, bytes(MAX_BYTES + 1)))
    not_text = masked(Frame(Opcode.TEXT, b"\xff\xfe"))
    reserved = bytes((0xC2, 0x80)) + bytes(4)
    for odd in (unmasked, too_large, not_text, reserved):
        assert fed(odd, []) == [[odd]]


def test_a_large_frame_is_given_away_before_its_body_has_come() -> None:
    head = masked(Frame(Opcode.BINARY, bytes(MAX_BYTES + 1)))[:14]
    assert fed(head, []) == [[head]]


@given(
    st.one_of(st.text(max_size=200), st.binary(max_size=200), st.integers(126, 70_000).map(bytes))
)
def test_what_is_written_the_library_reads(message: str | bytes) -> None:
    reader = StreamReader()
    reader.feed_data(plain_frame(message))
    parse = Frame.parse(reader.read_exact, mask=False)
    try:
        next(parse)
        raise AssertionError("the frame is not whole")
    except StopIteration as stop:
        frame: Frame = stop.value
    assert frame.fin
    assert bytes(frame.data) == (message.encode() if isinstance(message, str) else message)
    assert frame.opcode is (Opcode.TEXT if isinstance(message, str) else Opcode.BINARY)
