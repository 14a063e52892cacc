"""How long a recording lasts, from its size and its headers: nothing is decoded."""

from __future__ import annotations

from dragoman.audio.pcm import DEFAULT_SAMPLE_RATE, SAMPLE_BYTES

_OGG_PAGE = b"OggS"
_OPUS_RATE = 48_000
"""Positions in an Opus stream count samples of this rate, whatever it was made from."""
_OPUS_BYTES_PER_SECOND = 4_000
_WAV_HEADER_BYTES = 44


def seconds_of(audio: bytes, audio_format: str | None, sample_rate: int | None) -> float:
    """Seconds of ``pcm16``, ``wav`` or ``opus``; about so many where the headers do not say."""
    if audio_format == "opus":
        return _seconds_of_ogg(audio)
    if audio_format == "wav" and audio[:4] == b"RIFF" and len(audio) > _WAV_HEADER_BYTES:
        bytes_per_second = int.from_bytes(audio[28:32], "little")
        if bytes_per_second:
            return (len(audio) - _WAV_HEADER_BYTES) / bytes_per_second
    return len(audio) / SAMPLE_BYTES / (sample_rate or DEFAULT_SAMPLE_RATE)


def _seconds_of_ogg(audio: bytes) -> float:
    last = audio.rfind(_OGG_PAGE)
    if last >= 0 and len(audio) >= last + 14:
        position = int.from_bytes(audio[last + 6 : last + 14], "little", signed=True)
        if 0 < position < len(audio) * _OPUS_RATE:
            return position / _OPUS_RATE
    return len(audio) / _OPUS_BYTES_PER_SECOND
