"""Taking up a session that another instance held: its record, and what became of its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.ids import SessionId
from dragoman.live.dispatch import Job, weight_of
from dragoman.live.protocol import Outcome, SessionInit, same_language
from dragoman.live.sessions.delivery import Sent
from dragoman.live.sessions.messages import (
    failure,
    missing_result,
    translation_result,
)
from dragoman.live.sessions.orders import targets_of
from dragoman.live.shared import records as r


def is_behind(record: r.StoredSession, has_upto: int) -> bool:
    """Whether the client of a session has heard ends that its record cannot account for.

    The record's keeper went back to an earlier time, by a failover or with an old dump, and the
    owner was gone before it could write the record again. With a single target all ends come in
    one order, and each gets the number again that it had. Several targets may end in another order
    this time: the record does not tell which ends the client has heard, and under which numbers.
    Then the client says what has not ended in a new session.
    """
    own = {lane_of(record.init, target) for target in targets_of(record.init)}
    orders = own | {lane_of(record.init, each.target) for each in record.open}
    return has_upto >= record.next_seq and len(orders) > 1


def lane_of(init: SessionInit, target: str) -> str:
    """The order that a target belongs to: the client's own spelling of it, where it is known."""
    return next((own for own in targets_of(init) if same_language(own, target)), target)


def sent_before(session_id: SessionId, sent: r.SentDelivery, target: str, job: Job | None) -> Sent:
    """What an earlier owner of the session sent, with its result where that is still kept."""
    seq, entry = sent.seq, sent.delivery
    job_id, reason = entry.job_id, entry.reason
    if reason is None and job is not None and job.outcome is Outcome.SUCCESS:
        if job.output is not None:
            message = translation_result(session_id, seq, entry.index, target, job, job.output)
            return Sent(message, job, weight_of(job.output))
    elif reason is None and job is not None:
        reason = failure(job).code
    if reason is None:
        job_id, reason = None, r.DROPPED
    missing = missing_result(session_id, seq, entry.index, target, job_id, reason)
    return Sent(missing, job, weight_of(None))


class Turns:
    """Resumes of one session wait for each other; those of other sessions do not."""

    def __init__(self) -> None:
        self._visitors: dict[SessionId, int] = {}
        self._locks: dict[SessionId, asyncio.Lock] = {}

    def __len__(self) -> int:
        """Sessions that are being resumed."""
        return len(self._visitors)

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._visitors

    @asynccontextmanager
    async def turn(self, session_id: SessionId) -> AsyncIterator[None]:
        """Wait for the visitors that came before."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        self._visitors[session_id] = self._visitors.get(session_id, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._visitors[session_id] -= 1
            if not self._visitors[session_id]:
                del self._visitors[session_id], self._locks[session_id]
