"""How long audio lasts in each format, and what a node gets of it."""

from __future__ import annotations

import io
import struct
import wave

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.live.protocol import AudioFormat
from dragoman.live.sessions.audio import make_meter

RATE = 16_000


def wav(samples: bytes, rate: int = RATE, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples)
    return file.getvalue()


def samples_of(audio: bytes) -> tuple[int, int, bytes]:
    """What a node's reader finds: rate, channels, samples."""
    with wave.open(io.BytesIO(audio), "rb") as reader:
        samples = reader.readframes(reader.getnframes())
        return reader.getframerate(), reader.getnchannels(), samples


def ogg_page(*packets: bytes, continued: bool = False, unfinished: bool = False) -> bytes:
    lacing = bytearray()
    for packet in packets:
        lacing += b"\xff" * (len(packet) // 255)
        lacing.append(len(packet) % 255)
    if unfinished:
        lacing.pop()
    header = b"OggS\0" + bytes([int(continued)]) + b"\0" * 20 + bytes([len(lacing)])
    return header + bytes(lacing) + b"".join(packets)


def opus_packet(config: int, code: int, rest: bytes = b"audio") -> bytes:
    return bytes([config << 3 | code]) + rest


@pytest.mark.parametrize(("rate", "size", "expected_ms"), [(16_000, 640, 20), (48_000, 960, 10)])
def test_pcm16_is_exact(rate: int, size: int, expected_ms: float) -> None:
    assert make_meter(AudioFormat.PCM16, rate).duration_ms(bytes(size)) == expected_ms


def test_pcm16_is_joined_as_it_came() -> None:
    assert make_meter(AudioFormat.PCM16, RATE).join([b"ab", b"cd"]) == b"abcd"


def test_a_wav_stream_has_its_header_once() -> None:
    meter = make_meter(AudioFormat.WAV, RATE)
    first = wav(bytes(3528), rate=44_100, channels=2)
    assert meter.duration_ms(first) == 20
    assert meter.duration_ms(bytes(1764)) == 10
    assert samples_of(meter.join([first, b"\1" * 8])) == (44_100, 2, bytes(3528) + b"\1" * 8)
    assert samples_of(meter.join([b"\2" * 8])) == (44_100, 2, b"\2" * 8)


def test_wav_chunks_with_headers_of_their_own_count_only_their_samples() -> None:
    meter = make_meter(AudioFormat.WAV, RATE)
    chunks = [wav(b"\1\0" * 320), wav(b"\2\0" * 320)]
    assert [meter.duration_ms(chunk) for chunk in chunks] == [20, 20]
    assert samples_of(meter.join(chunks)) == (RATE, 1, b"\1\0" * 320 + b"\2\0" * 320)


def test_a_header_that_does_not_know_its_size_yet_is_followed_by_samples() -> None:
    for unknown in (0, 0xFFFFFFFF):
        streaming = wav(b"")[:-4] + struct.pack("<I", unknown) + b"\1\0" * 160
        meter = make_meter(AudioFormat.WAV, 8000)
        assert meter.duration_ms(streaming) == 10
        assert samples_of(meter.join([streaming])) == (RATE, 1, b"\1\0" * 160)


def test_what_follows_the_samples_of_a_wav_is_not_audio() -> None:
    meter = make_meter(AudioFormat.WAV, RATE)
    tagged = wav(bytes(640)) + b"LIST" + struct.pack("<I", 4) + b"INFO"
    assert meter.duration_ms(tagged) == 20
    assert samples_of(meter.join([tagged]))[2] == bytes(640)


def test_wav_samples_without_any_header_are_taken_for_16_bit_mono() -> None:
    meter = make_meter(AudioFormat.WAV, RATE)
    assert meter.duration_ms(bytes(640)) == 20
    assert samples_of(meter.join([bytes(640)])) == (RATE, 1, bytes(640))


@pytest.mark.parametrize(
    "broken",
    [
        b"RIFF",
        b"RIFF\0\0\0\0WAVE",
        b"RIFF\0\0\0\0WAVEfmt \xff\xff\xff\xff",
        b"RIFF\0\0\0\0WAVEdata\4\0\0\0abcd",
        wav(b"abcd")[:40],
        wav(b"abcd").replace(struct.pack("<I", RATE * 2), bytes(4)),
        b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 100_000,
    ],
)
def test_a_broken_wav_header_is_kept_as_audio(broken: bytes) -> None:
    meter = make_meter(AudioFormat.WAV, RATE)
    assert meter.duration_ms(broken) == len(broken) * 1000 / (RATE * 2)
    assert broken in meter.join([broken])


@pytest.mark.parametrize(
    ("packet", "expected_ms"),
    [
        (opus_packet(1, 0), 20),
        (opus_packet(3, 0), 60),
        (opus_packet(11, 0), 60),
        (opus_packet(12, 0), 10),
        (opus_packet(15, 0), 20),
        (opus_packet(16, 0), 2.5),
        (opus_packet(31, 0), 20),
        (opus_packet(31, 1), 40),
        (opus_packet(31, 2), 40),
        (opus_packet(31, 3, b"\x06"), 120),
        (opus_packet(31, 3, b"\x83"), 60),
        (opus_packet(31, 3, b"\x00"), 20),
        (opus_packet(31, 3, b"\x3f"), 20),
        (opus_packet(31, 3, b""), 20),
        (b"", 0),
    ],
)
def test_an_opus_packet_tells_its_length(packet: bytes, expected_ms: float) -> None:
    assert make_meter(AudioFormat.OPUS, RATE).duration_ms(packet) == expected_ms


def test_ogg_pages_are_split_into_packets_and_headers_count_nothing() -> None:
    meter = make_meter(AudioFormat.OPUS, RATE)
    headers = ogg_page(b"OpusHead" + bytes(11)) + ogg_page(b"OpusTags" + bytes(300))
    assert meter.duration_ms(headers) == 0
    packets = [opus_packet(31, 0, bytes(size)) for size in (10, 254, 255, 600)]
    assert meter.duration_ms(headers + ogg_page(*packets[:2]) + ogg_page(*packets[2:])) == 80


def test_a_packet_over_two_ogg_pages_counts_once() -> None:
    meter = make_meter(AudioFormat.OPUS, RATE)
    begin = ogg_page(opus_packet(31, 0, bytes(509)), unfinished=True)
    rest = ogg_page(b"the rest", opus_packet(31, 0), continued=True)
    assert meter.duration_ms(begin) == 20
    assert meter.duration_ms(rest) == 20


def test_an_ogg_page_that_ends_too_early_counts_what_is_there() -> None:
    meter = make_meter(AudioFormat.OPUS, RATE)
    page = ogg_page(opus_packet(31, 0), opus_packet(31, 0))
    assert meter.duration_ms(page[:-6]) == 20
    assert meter.duration_ms(page[:20]) == 20


def test_a_hostile_ogg_chunk_is_not_walked_to_its_end() -> None:
    meter = make_meter(AudioFormat.OPUS, RATE)
    assert meter.duration_ms(ogg_page(*[b""] * 255) * 10_000 + b"x") < 200_000


@given(
    st.sampled_from(AudioFormat),
    st.lists(
        st.one_of(
            st.binary(max_size=80),
            st.binary(max_size=80).map(lambda rest: b"OggS" + rest),
            st.binary(max_size=80).map(lambda rest: b"RIFF\0\0\0\0WAVE" + rest),
            st.binary(max_size=80).map(lambda rest: b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + rest),
        ),
        max_size=4,
    ),
)
@example(AudioFormat.WAV, [])
def test_no_input_makes_a_meter_fail(audio_format: AudioFormat, payloads: list[bytes]) -> None:
    meter = make_meter(audio_format, RATE)
    assert all(meter.duration_ms(payload) >= 0 for payload in payloads)
    joined = meter.join(payloads)
    if audio_format is not AudioFormat.WAV:
        assert joined == b"".join(payloads)


@given(st.lists(st.binary(max_size=40), max_size=5), st.booleans())
def test_a_joined_wav_holds_exactly_the_samples(chunks: list[bytes], with_header: bool) -> None:
    meter = make_meter(AudioFormat.WAV, RATE)
    sent = [wav(chunks[0]), *chunks[1:]] if with_header and chunks else chunks
    joined = meter.join(sent)
    said = b"".join(chunks)
    assert struct.unpack_from("<I", joined, 4)[0] == len(joined) - 8
    assert struct.unpack_from("<I", joined, 40)[0] == len(said)
    assert joined[44 : 44 + len(said)] == said
