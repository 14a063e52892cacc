"""Opus audio: how long its packets last, read from their first two bytes (RFC 6716, RFC 7845)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_SILK_MS = (10.0, 20.0, 40.0, 60.0)
_HYBRID_MS = (10.0, 20.0)
_CELT_MS = (2.5, 5.0, 10.0, 20.0)
_FRAME_MS = _SILK_MS * 3 + _HYBRID_MS * 2 + _CELT_MS * 4
"""The length of a frame for each of the 32 configurations in a packet's first byte."""

_LONGEST_PACKET_MS = 120.0
_GARBAGE_MS = 20.0
"""What a packet that cannot be read counts for: the length nearly every encoder uses."""

_PAGE_MARK = b"OggS"
_PAGE_HEADER_BYTES = 27
_CONTINUED = 0x01
_HEADER_PACKETS = (b"OpusHead", b"OpusTags")

_MOST_STEPS = 6000
"""Pages and packets looked at in one chunk: two minutes of speech. Only a hostile chunk has more,
and it would cost more time to walk than it is worth."""


def packet_ms(packet: bytes) -> float:
    """How long one packet lasts."""
    if not packet:
        return _GARBAGE_MS
    frame_ms = _FRAME_MS[packet[0] >> 3]
    match packet[0] & 3:
        case 0:
            return frame_ms
        case 1 | 2:
            return 2 * frame_ms
    frames = packet[1] & 0x3F if len(packet) > 1 else 0
    total_ms = frames * frame_ms
    return total_ms if 0 < total_ms <= _LONGEST_PACKET_MS else _GARBAGE_MS


def ogg_packets(payload: bytes) -> Iterator[bytes]:
    """The beginnings of the packets that begin in a run of Ogg pages, as far as it can be read."""
    position = 0
    steps = 0
    while payload.startswith(_PAGE_MARK, position):
        lacing_start = position + _PAGE_HEADER_BYTES
        if lacing_start > len(payload):
            return
        lacing = payload[lacing_start : lacing_start + payload[lacing_start - 1]]
        begins = not payload[position + 5] & _CONTINUED
        position = lacing_start + len(lacing)
        steps += 1 + len(lacing)
        if steps > _MOST_STEPS:
            return
        for segment_bytes in lacing:
            if begins and position < len(payload):
                yield payload[position : position + min(segment_bytes, 8)]
            # A segment of 255 bytes says that its packet goes on in the next one.
            begins = segment_bytes < 255
            position += segment_bytes


class OpusMeter:
    """Opus audio, as bare packets (one a chunk) or as Ogg pages: estimated from the packets."""

    sample_bytes = 1
    ms_per_byte = 0.0

    def begins_anew(self, payload: bytes) -> bool:
        return True

    def torn_bytes(self, payloads: Sequence[bytes]) -> int:
        return 0

    def duration_ms(self, payload: bytes) -> float:
        if not payload:
            return 0.0
        if not payload.startswith(_PAGE_MARK):
            return packet_ms(payload)
        if len(payload) < _PAGE_HEADER_BYTES:
            return _GARBAGE_MS
        return sum(
            packet_ms(packet)
            for packet in ogg_packets(payload)
            if not packet.startswith(_HEADER_PACKETS)
        )

    def join(self, payloads: Sequence[bytes]) -> bytes:
        return b"".join(payloads)
