"""What happened to each utterance and when, for a page that shows it."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.clock import Clock
from dragoman.ids import JobId, SessionId
from dragoman.live.dispatch import Progress
from dragoman.live.protocol import SchedulerToClient, UiEvent, UiEventName, UiStatus

PROGRESS: dict[Progress, UiEventName] = {
    Progress.DISPATCHED: UiEventName.DISPATCHED,
    Progress.ACCEPTED: UiEventName.NODE_ACCEPTED,
    Progress.RUNNING: UiEventName.RUNNING,
    Progress.FAILOVER: UiEventName.FAILOVER,
}


class Timeline:
    """Sends ui_event messages for a session that asked for them."""

    def __init__(
        self, session_id: SessionId, send: Callable[[SchedulerToClient], bool], clock: Clock
    ) -> None:
        self._session_id = session_id
        self._send = send
        self._clock = clock
        self._started: dict[int, float] = {}
        self._ends_left: dict[int, int] = {}

    def expect(self, index: int, ends: int) -> None:
        """The utterance will be delivered or announced so many times."""
        self._ends_left[index] = ends

    def tell(
        self,
        index: int,
        event: UiEventName,
        job_id: JobId | None = None,
        error_code: str | None = None,
    ) -> None:
        """Something happened to an utterance; times count from the start of its input."""
        now = self._clock.monotonic()
        started = self._started.setdefault(index, now)
        self._send(
            UiEvent(
                session_id=self._session_id,
                utterance_index=index,
                event=event,
                elapsed_ms=round((now - started) * 1000, 3),
                status=UiStatus.ERROR if error_code else UiStatus.OK,
                job_id=job_id,
                error_code=error_code,
            )
        )

    def ended(self, index: int) -> None:
        """The utterance was delivered or announced once; after the last time it is over."""
        left = self._ends_left.pop(index, 1) - 1
        if left:
            self._ends_left[index] = left
        else:
            self._started.pop(index, None)
