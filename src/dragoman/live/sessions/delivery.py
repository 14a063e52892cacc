"""The order of delivery: a lane for each target, and what the client has not acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from dragoman.ids import SessionId
from dragoman.live.dispatch import Job
from dragoman.live.protocol import JobResult, MissingResult, TranslationResult
from dragoman.live.sessions.messages import missing_result
from dragoman.live.shared import records as r

Delivery = TranslationResult | MissingResult


class End(msgspec.Struct, eq=False):
    """How an utterance ended for one target: with a job, or with the reason for none.

    The job may lead back to the session, so the garbage collector must see what lies between.
    """

    job: Job | None
    output: JobResult | None
    """Kept here, too: the ledger may let go of it before its turn comes."""
    reason: str | None
    """None: the job succeeded."""
    weight: int


class Lane:
    """The utterances of one target that the client was not told of, in the order spoken."""

    __slots__ = ("held", "order", "working")

    def __init__(self) -> None:
        self.order: deque[int] = deque()
        self.working: dict[int, Job | None] = {}
        """Utterances without an end, and the job that works on each; None before it is made."""
        self.held: dict[int, End] = {}
        """Ends that wait for an utterance before them."""


class Sent(msgspec.Struct, eq=False):
    """A delivery that may have to be sent again. The garbage collector sees it, as it sees ends."""

    message: Delivery
    job: Job | None
    weight: int


class Unacknowledged:
    """Deliveries in the order of their numbers, until the client says that it has them.

    Bounded in messages and in bytes. The oldest go first, and leave a mark behind, so that their
    numbers can still be explained; marks are bounded too.
    """

    def __init__(self, keep_messages: int, keep_bytes: int, session_id: SessionId) -> None:
        self._session_id = session_id
        self.size_bytes = 0
        self._keep_messages = keep_messages
        self._keep_bytes = keep_bytes
        self._kept: deque[Sent] = deque()
        self._marks: deque[Sent] = deque(maxlen=keep_messages * r.MARKS_PER_DELIVERY)

    def keep(self, sent: Sent) -> None:
        """Keep a delivery; the oldest make room for it."""
        self._kept.append(sent)
        self.size_bytes += sent.weight
        while len(self._kept) > self._keep_messages or self.size_bytes > self._keep_bytes:
            oldest = self._kept.popleft()
            self.size_bytes -= oldest.weight
            self._marks.append(_mark_of(oldest, self._session_id))

    def acknowledge(self, upto: int) -> list[Job]:
        """Let go of everything up to a number; the jobs whose results need not be kept."""
        released: list[Job] = []
        while self._marks and self._marks[0].message.delivery_seq <= upto:
            self._marks.popleft()
        kept = self._kept
        while kept and kept[0].message.delivery_seq <= upto:
            sent = kept.popleft()
            self.size_bytes -= sent.weight
            if sent.job is not None:
                released.append(sent.job)
        return released

    def after(self, delivery_seq: int) -> Iterator[Delivery]:
        """Everything with a higher number, in order; a mark stands for what was dropped."""
        for sent in (*self._marks, *self._kept):
            if sent.message.delivery_seq > delivery_seq:
                yield sent.message

    def jobs(self) -> list[Job]:
        """The jobs whose results are kept."""
        return [sent.job for sent in self._kept if sent.job is not None]


def _mark_of(sent: Sent, session_id: SessionId) -> Sent:
    message = sent.message
    if isinstance(message, MissingResult):
        return Sent(message, None, 0)
    mark = missing_result(
        session_id, message.delivery_seq, message.utterance_index, message.tgt_lang, None, r.DROPPED
    )
    return Sent(mark, None, 0)
