"""Audio on its way to the scheduler, kept until the scheduler has stored it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from dragoman.live.protocol import AudioChunk, SessionInitAck


def pieces(audio: bytes, longest_bytes: int | None) -> Iterator[bytes]:
    """The audio in pieces of at most so many bytes; None leaves it whole."""
    if longest_bytes is None or len(audio) <= longest_bytes:
        yield audio
        return
    for start in range(0, len(audio), longest_bytes):
        yield audio[start : start + longest_bytes]


class Chunks:
    """The chunks of a session, numbered from 0; the scheduler cuts them into utterances.

    A chunk is forgotten when the scheduler says that it has stored it, and sent again when the
    scheduler, after a lost connection, says that it has not.
    """

    in_flight = 0
    """Only the scheduler knows how many utterances the audio becomes."""

    def __init__(self) -> None:
        self._kept: deque[AudioChunk] = deque()
        self._kept_bytes = 0
        self._first_seq = 0
        """The number of the first chunk kept."""
        self._unsent_seq = 0
        self._base_index = 0
        """What the caller calls the utterance that this session calls 0."""
        self._next_index = 0

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

    @property
    def all_sent(self) -> bool:
        return self._unsent_seq >= self._first_seq + len(self._kept)

    def add(self, payload: bytes, *, is_final: bool) -> None:
        self._kept.append(AudioChunk(self._first_seq + len(self._kept), is_final, payload))
        self._kept_bytes += len(payload)

    def next_unsent(self) -> AudioChunk | None:
        if self.all_sent:
            return None
        chunk = self._kept[self._unsent_seq - self._first_seq]
        self._unsent_seq += 1
        return chunk

    def stored(self, next_chunk_seq: int) -> None:
        while self._kept and self._first_seq < next_chunk_seq:
            self._kept_bytes -= len(self._kept.popleft().payload)
            self._first_seq += 1
        self._unsent_seq = max(self._unsent_seq, self._first_seq)

    def resume(self, ack: SessionInitAck) -> bool:
        if ack.next_chunk_seq < self._first_seq:
            return False
        self.stored(ack.next_chunk_seq)
        self._unsent_seq = self._first_seq
        return True

    def restart(self) -> None:
        """What the old session had stored and not answered is lost: the audio is not here."""
        self._kept = deque(
            AudioChunk(seq, chunk.is_final, chunk.payload) for seq, chunk in enumerate(self._kept)
        )
        self._first_seq = self._unsent_seq = 0
        self._base_index = self._next_index

    def index_of(self, utterance_index: int) -> int:
        return self._base_index + utterance_index

    def ended(self, index: int, target: str | None) -> bool:
        self._next_index = max(self._next_index, index + 1)
        return True
