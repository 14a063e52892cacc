"""What sessions need of ledgers and of other instances, so that they need not know them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from dragoman.ids import ConnectionId, JobId, SessionId
from dragoman.live.dispatch import Job, OnPartial, OnProgress
from dragoman.live.protocol import SchedulerToClient
from dragoman.live.shared import records as r


class ResultKeeper(Protocol):
    """Keeps the results of ended jobs."""

    def release_now(self, job: Job) -> None:
        """The job's result was acknowledged, or no client will come for it."""
        ...


class SessionPeers(Protocol):
    """The other instances. What they are told is a hint that may be lost, without an answer."""

    def taken(self, session_id: SessionId, before: r.SessionOwner, now: r.SessionOwner) -> None:
        """Tell the instance that held a session that it was resumed here."""
        ...


class JobWatching(Protocol):
    """Hears of jobs wherever they are driven, here too."""

    def watch(
        self,
        job_id: JobId,
        then: Callable[[Job | None], None],
        on_partial: OnPartial | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Call back once, with the job when it has ended, or with None when no ledger knows it."""
        ...

    def find_ended(self, job_ids: Iterable[JobId]) -> Awaitable[Mapping[JobId, Job]]:
        """Those of the jobs that have ended and are kept."""
        ...


class ClientLink(Protocol):
    """The connection a session's client is reached through."""

    @property
    def id(self) -> ConnectionId: ...

    def send(self, message: SchedulerToClient) -> bool:
        """False when the connection is closed."""
        ...

    def superseded(self) -> None:
        """Close it: the client resumed over another connection."""
        ...

    def timed_out(self) -> None:
        """Close it: nothing was heard from the client in time."""
        ...

    def overrun(self, reason: str) -> None:
        """Close it: the client sends more than may be kept."""
        ...

    def finished(self) -> None:
        """Close it: the session came to its regular end."""
        ...

    def ended(self) -> None:
        """Close it: the session was ended by order of its tenant or an operator."""
        ...

    def draining(self) -> None:
        """Close it: this server is about to stop, and the client may go on at another."""
        ...
