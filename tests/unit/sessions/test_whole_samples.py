"""However a client's chunks tear samples apart, utterances hold whole ones."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.live.protocol import AudioFormat
from dragoman.live.sessions.audio import WholeSamples, make_meter
from dragoman.live.sessions.segmenter import Segment, Segmenter, SegmentRules

RULES = SegmentRules(
    pause_ms=1000,
    max_duration_ms=1_000_000,
    max_bytes=21,
    hangover_auto_ms=150,
    hangover_manual_ms=200,
)
TIMES = st.sampled_from([0.0, 0.02, 0.149, 0.3, 1.5])


def samples_of(count: int) -> bytes:
    return b"".join(struct.pack("<H", number) for number in range(count))


def numbers_in(audio: bytes) -> list[int]:
    return [number for (number,) in struct.iter_unpack("<H", audio)]


def joined(segments: list[Segment], keeper: WholeSamples) -> list[bytes]:
    return [keeper.join(found.chunks, found.gaps) for found in segments]


def pcm16() -> WholeSamples:
    return WholeSamples(make_meter(AudioFormat.PCM16, 16000))


def torn(audio: bytes, sizes: list[int]) -> list[bytes]:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(audio[at : at + size])
        at += size
    return [*chunks, audio[at:]]


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.data(),
)
def test_cuts_between_torn_samples_lose_and_shift_nothing(
    sizes: list[int], data: st.DataObject
) -> None:
    said = samples_of(80)
    chunks = torn(said, sizes)
    meter = make_meter(AudioFormat.PCM16, 16000)
    segmenter, keeper = Segmenter(RULES, meter), WholeSamples(meter)
    heard: list[bytes] = []
    now = 0.0
    for seq, chunk in enumerate(chunks):
        now += data.draw(TIMES, label="silence")
        heard += joined(segmenter.due(now), keeper)
        final = data.draw(st.booleans(), label="final")
        heard += joined(segmenter.push(seq, chunk, final, now), keeper)
    heard += joined(segmenter.close(now), keeper)
    assert all(len(audio) % 2 == 0 for audio in heard)
    assert b"".join(heard) == said
    assert keeper.half == b""


@pytest.mark.parametrize("chunk_bytes", [2, 3, 7, 160, 161])
@pytest.mark.parametrize("lost", [{1}, {2}, {4}, {2, 3}, {1, 5, 6}, {0}])
def test_after_lost_chunks_of_one_size_samples_are_whole_again(
    chunk_bytes: int, lost: set[int]
) -> None:
    said = samples_of(chunk_bytes * 6)
    chunks = [said[at : at + chunk_bytes] for at in range(0, len(said), chunk_bytes)]
    segmenter, keeper = Segmenter(RULES, make_meter(AudioFormat.PCM16, 16000)), pcm16()
    heard: list[bytes] = []
    for seq, chunk in enumerate(chunks):
        heard += joined(segmenter.due(seq * 0.3), keeper)
        if seq not in lost or (seq == 0 and chunk_bytes % 2):  # the first tells the size
            heard += joined(segmenter.push(seq, chunk, seq % 3 == 2, seq * 0.3), keeper)
    heard += joined(segmenter.close(len(chunks) * 0.3), keeper)
    numbers = [number for audio in heard for number in numbers_in(audio)]
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= set(range(len(said) // 2))
    missing = len(lost) * (chunk_bytes // 2 + 1) + 1
    assert len(numbers) >= len(said) // 2 - missing


def test_half_a_sample_is_no_utterance_and_waits_for_its_other_half() -> None:
    keeper = pcm16()
    assert keeper.join([b"a"], ()) == b""
    assert keeper.half == b"a"
    assert keeper.join([b"b", b"cde"], ()) == b"abcd"
    assert keeper.half == b"e"


def test_a_chunk_of_less_than_a_sample_says_nothing_of_those_that_are_missing() -> None:
    assert pcm16().join([b"a", b"b"], [(1, 3)]) == b"ab"


def test_half_a_sample_can_be_dropped() -> None:
    keeper = pcm16()
    keeper.join([b"abc"], ())
    keeper.drop_half()
    assert keeper.join([b"de"], ()) == b"de"


def test_another_owner_goes_on_with_the_half_that_was_stored() -> None:
    meter = make_meter(AudioFormat.PCM16, 16000)
    assert WholeSamples(meter, half=b"a").join([b"bcd"], ()) == b"abcd"


def test_opus_packets_are_never_torn() -> None:
    keeper = WholeSamples(make_meter(AudioFormat.OPUS, 16000))
    assert keeper.join([b"abc", b"d", b"e"], ()) == b"abcde"
    assert keeper.half == b""


def wav_header(channels: int, data_bytes: int) -> bytes:
    layout = struct.pack("<HHIIHH", 1, channels, 16000, 32000 * channels, 2 * channels, 16)
    return (
        b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<I", len(layout)) + layout
        + b"data" + struct.pack("<I", data_bytes)
    )  # fmt: skip


def data_of(wav: bytes) -> bytes:
    start = wav.index(b"data") + 8
    (size,) = struct.unpack_from("<I", wav, start - 4)
    return wav[start : start + size]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12))
def test_a_wav_recording_that_goes_on_is_cut_between_frames_of_all_channels(
    sizes: list[int],
) -> None:
    said = samples_of(100)
    chunks = torn(said, sizes)
    meter = make_meter(AudioFormat.WAV, 16000)
    keeper = WholeSamples(meter)
    opening = wav_header(2, 0xFFFFFFFF) + chunks[0]
    meter.duration_ms(opening)  # as every chunk is measured when it comes
    first = keeper.join([opening], ())
    rest = [keeper.join([chunk], ()) for chunk in chunks[1:] if chunk]
    parts = [data_of(wav) for wav in (first, *rest) if wav]
    assert all(len(part) % 4 == 0 for part in parts)
    assert b"".join(parts) == said


def test_a_wav_file_in_each_chunk_begins_anew() -> None:
    keeper = WholeSamples(make_meter(AudioFormat.WAV, 16000))
    keeper.join([wav_header(1, 3) + b"abc"], ())
    assert data_of(keeper.join([wav_header(1, 4) + b"defg"], ())) == b"defg"


def test_what_is_cut_off_for_its_size_keeps_samples_whole_too() -> None:
    segmenter = Segmenter(RULES, make_meter(AudioFormat.PCM16, 16000))
    keeper = pcm16()
    said = samples_of(50)
    heard = joined(segmenter.push(0, said[:33], False, 0.0), keeper)
    heard += joined(segmenter.push(1, said[33:60], False, 0.1), keeper)
    heard += joined(segmenter.push(2, said[60:], False, 0.2), keeper)
    heard += joined(segmenter.close(0.3), keeper)
    assert b"".join(heard) == said
    firsts = [numbers_in(audio)[0] for audio in heard]
    assert all(earlier < later for earlier, later in pairwise(firsts))
