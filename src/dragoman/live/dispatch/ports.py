"""What dispatch needs of its neighbours, so that it need not know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from dragoman.ids import JobId, NodeId, SessionId, TenantId
from dragoman.live.dispatch.job import Job
from dragoman.live.ledger import Owner
from dragoman.live.protocol import GlossaryTerm, SchedulerToNode
from dragoman.live.shared import records as r

Id = TypeVar("Id", contravariant=True)


class NodePort(Protocol):
    """Reaches nodes of this instance."""

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        """Say something over this very connection; False when it is gone."""
        ...

    def report(self, cells: Iterable[int]) -> None:
        """These cells lost their memory: have their nodes say what they run."""
        ...


class Glossary(Protocol):
    """The words of one tenant."""

    def terms(
        self, pairs: tuple[tuple[str, str], ...], text: str | None
    ) -> tuple[GlossaryTerm, ...]:
        """What a job between these languages is told, of a text or of speech."""
        ...


Claimed = r.JobOpened | r.JobFound | r.NotOwner | r.Behind | None
"""What became of a claim; None: no answer came, and none is waited for any more."""
AfterClaim = Callable[[Job, Claimed, int], None]
"""Gets the job, what became of its claim, and the shard's time."""


class SessionRecord(Protocol):
    """Keeps a session's record where instances share it: jobs are opened and ended with it."""

    @property
    def session_id(self) -> SessionId: ...

    @property
    def holding(self) -> r.Holding:
        """What is named with every write."""
        ...

    def claim(self, job: Job, new: r.NewJob, then: AfterClaim) -> None:
        """A job of the utterance that is being submitted: it is opened with the utterance."""
        ...

    def elsewhere(self, index: int, target: str) -> Callable[[JobId | None], None]:
        """A job of the utterance lies in another shard; the function is told its id."""
        ...

    def saw(self, revision: int) -> None:
        """An answer told the record's revision; 0: it is another's, or older than it should be."""
        ...


class TenantCounts(Protocol[Id]):
    """Counts what each tenant has of something, by its id, over all instances."""

    async def acquire(self, tenant: TenantId, counted: Id) -> None:
        """Count a new one; RateLimited when the tenant has as many as it may."""
        ...

    def adopt(self, tenant: TenantId, counted: Id) -> None:
        """Go on counting one that was counted before, here or elsewhere."""
        ...

    def hand_on(self, tenant: TenantId, counted: Id) -> None:
        """Leave the counting to another instance."""
        ...

    def release(self, tenant: TenantId, counted: Id) -> None:
        """It is over."""
        ...
