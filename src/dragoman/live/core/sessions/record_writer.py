"""A session's record where instances share it: every change is stored before the client hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dragoman.ids import JobId, SessionId
from dragoman.live.core.job import Job
from dragoman.live.shared import records as r

Claimed = r.JobOpened | r.JobFound | r.NotOwner | r.Behind | None
"""What became of a claim; None: no answer came, and none is waited for any more."""


class RecordWriter(Protocol):
    """Writes one session's record, one step at a time."""

    session_id: SessionId

    @property
    def holding(self) -> r.Holding:
        """What is named with every write."""
        ...

    def claim(self, job: Job, new: r.NewJob, then: Callable[[Job, Claimed, int], None]) -> None:
        """A job of the utterance that is being submitted: it is opened with the utterance.

        `then` gets its answer, and the shard's time.
        """
        ...

    def elsewhere(self, index: int, target: str) -> Callable[[JobId | None], None]:
        """A job of the utterance lies in another shard, where the ledger opens it.

        The utterance is opened once the function that is returned was told the job's id.
        """
        ...

    def saw(self, revision: int) -> None:
        """An answer told the record's revision; 0: it is another's, or older than it should be."""
        ...
