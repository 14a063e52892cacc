"""What the two ways to speak, in chunks and in whole utterances, have in common."""

from __future__ import annotations

from typing import Protocol

from dragoman.live.protocol import AudioChunk, SessionInitAck, Utterance


class ClientSpeech(Protocol):
    """What was said, as long as it may have to be said again."""

    @property
    def kept_bytes(self) -> int: ...

    @property
    def in_flight(self) -> int:
        """How many utterances are known to have no result yet."""
        ...

    @property
    def all_sent(self) -> bool:
        """Whether nothing waits to be sent over the present connection."""
        ...

    def next_unsent(self) -> AudioChunk | Utterance | None:
        """The next message to send, which counts as sent from now on."""
        ...

    def stored(self, next_chunk_seq: int) -> None:
        """Chunks below the number are in the scheduler's hands."""
        ...

    def resume(self, ack: SessionInitAck) -> bool:
        """Go on, over a new connection, with what the scheduler asks for.

        False when that is no longer kept: the scheduler has forgotten that it had it.
        """
        ...

    def restart(self) -> None:
        """A new session takes what the old one can no longer be asked for; numbers begin again."""
        ...

    def index_of(self, utterance_index: int) -> int:
        """An utterance's number as the caller knows it, over all sessions."""
        ...

    def ended(self, index: int, target: str | None) -> bool:
        """The utterance ended for a target; False when that was known before."""
        ...
