"""Whole utterances on their way to the scheduler, kept until they have ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from dragoman.live.protocol import SessionInitAck, Utterance


@dataclass(slots=True)
class _Pending:
    """An utterance that has not ended for every target."""

    message: Utterance
    ends_expected: int
    size_bytes: int
    ended: set[str | None] = field(default_factory=set)


class Utterances:
    """The utterances of a conversation, numbered from 0 as the caller knows them.

    After a lost connection the scheduler says which one it wants next. If it has lost the whole
    session, those that have not ended are said again to a new one. That one numbers from 0 without
    gaps: first the ones said again, in their order, then what comes.
    """

    def __init__(self, targets: int) -> None:
        self.kept_bytes = 0
        self._targets = targets
        self._pending: dict[int, _Pending] = {}
        self._next_index = 0
        self._said_again: tuple[int, ...] = ()
        self._new_from = 0
        """The first utterance that only the present session has heard."""
        self._sent = 0
        """How many the present session was sent."""

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    @property
    def all_sent(self) -> bool:
        return self._sent >= len(self._said_again) + self._next_index - self._new_from

    @property
    def next_number(self) -> int:
        """What the present session will call the next utterance, if nothing comes between."""
        return len(self._said_again) + self._next_index - self._new_from

    def add(self, message: Utterance) -> int:
        """Take the next utterance; its number."""
        size_bytes = len(message.audio or b"") + len(message.text or "")
        ends_expected = self._targets if message.tgt_lang is None else 1
        self._pending[self._next_index] = _Pending(message, ends_expected, size_bytes)
        self.kept_bytes += size_bytes
        self._next_index += 1
        return self._next_index - 1

    def next_unsent(self) -> Utterance | None:
        if self.all_sent:
            return None
        message = self._pending[self.index_of(self._sent)].message
        number = self._sent
        self._sent += 1
        if message.utterance_index == number:
            return message
        return msgspec.structs.replace(message, utterance_index=number)

    def stored(self, next_chunk_seq: int) -> None:
        """Chunks are not ours: an utterance is kept until it has ended."""

    def resume(self, ack: SessionInitAck) -> bool:
        self._sent = ack.next_utterance_index
        return self.all_sent or self.index_of(self._sent) in self._pending

    def restart(self) -> None:
        self._said_again = tuple(self._pending)
        self._new_from = self._next_index
        self._sent = 0

    def index_of(self, utterance_index: int) -> int:
        again = len(self._said_again)
        if utterance_index < again:
            return self._said_again[utterance_index]
        return self._new_from + utterance_index - again

    def ended(self, index: int, target: str | None) -> bool:
        pending = self._pending.get(index)
        if pending is None or target in pending.ended:
            return False
        pending.ended.add(target)
        if len(pending.ended) >= pending.ends_expected:
            del self._pending[index]
            self.kept_bytes -= pending.size_bytes
        return True
