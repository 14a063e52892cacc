"""The ledger's door: who holds which slot, which request is which job, and each job's one end.

Two operations are hot, and every job takes both: `place` and `finish`. They answer through a
callback, so that one core serves a ledger in this process, which answers before it returns, and
one behind a network, which answers later. Everything else is rare and may be a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

import msgspec

from dragoman.errors import DependencyDown
from dragoman.live.dispatch.job import Job, Leaving
from dragoman.live.ledger import (
    Ending,
    Freed,
    Outlook,
    StaleReason,
)
from dragoman.live.protocol import ErrorInfo, Outcome


class Placing(Enum):
    """What `place` answers. The table is complete: a ledger gives no other answer.

    | answer | the request | a slot | the caller |
    | --- | --- | --- | --- |
    | PLACED | is this job | is held; attempt, seat and times are in the job | tells the node |
    | EXISTING | is another job, which comes with the answer | none | attaches to that job |
    | CONFLICT | is another job with another body | none | refuses, and names that job |
    | FULL | is this job | none of the candidates had one | widens the choice, waits or refuses |
    | COLD | is this job | a cell lost its memory; the others were full | has its nodes report |
    | GONE | is this job | the attempt is over already | asks again with a fresh attempt_id |
    | DOWN | may or may not be this job | may or may not be held | treats both as unknown |
    | ELSEWHERE | belongs to a session that another instance owns | none | lets go of the session |
    | TAKEN | was this job's; another instance drives it, or ended it | none | waits for its end |
    | FORGOTTEN | was this job's, and the ledger lost it | none | tells those who wait |
    """

    PLACED = "placed"
    EXISTING = "existing"
    CONFLICT = "conflict"
    FULL = "full"
    COLD = "cold"
    GONE = "gone"
    DOWN = "down"
    ELSEWHERE = "elsewhere"
    TAKEN = "taken"
    FORGOTTEN = "forgotten"


class Finishing(Enum):
    """What `finish` answers.

    | answer | the slot | the job |
    | --- | --- | --- |
    | ENDED | is free | has its end, by this call |
    | AGAIN | is free | is without an attempt again, and the caller goes on with it |
    | MOVED | is free, or was before | went on without this attempt; what it brought is dropped |
    | DOWN | may or may not be free | may or may not have ended; asking again is safe |
    """

    ENDED = "ended"
    AGAIN = "again"
    MOVED = "moved"
    DOWN = "down"


class PlaceAnswer(msgspec.Struct, frozen=True):
    """How a job was placed, with what the caller needs to go on."""

    kind: Placing
    other: Job | None = None
    """EXISTING and CONFLICT: the job that the request is bound to. TAKEN: as it is stored."""
    cold: tuple[int, ...] = ()
    """COLD: the cells."""
    headroom: bool = False
    """FULL: slots were free, but kept back for live work."""
    owner: str = ""
    """ELSEWHERE: the instance that owns the session."""
    error: DependencyDown | None = None
    """DOWN: why, where the ledger said so."""


ENDED: Final = Finishing.ENDED
PLACED = PlaceAnswer(Placing.PLACED)
FULL = PlaceAnswer(Placing.FULL)
FULL_BUT_HEADROOM = PlaceAnswer(Placing.FULL, headroom=True)

AfterPlace = Callable[[Job, PlaceAnswer, float], None]
"""Called once for each job, with the time; it never raises."""
AfterFinish = Callable[[Job, Finishing, Freed, float], None]
AfterCheck = Callable[[Job, bool, float], None]
AfterPreempt = Callable[[Job, "PreemptedAttempt | PlaceAnswer | None", float], None]
AfterOutlook = Callable[[Job, Outlook | None, float], None]


class Late(msgspec.Struct, frozen=True):
    """What a message about an attempt that is not a job's current one came to."""

    reason: StaleReason
    freed: Freed | None = None
    """A cancelled attempt ended at last: its slot."""


class PreemptedAttempt(msgspec.Struct, frozen=True):
    """A batch attempt gives way; its slot passes to the job that asked."""

    victim: Job | None
    """None: another instance drives it, and was told."""
    left: Leaving


class JobLedger(Protocol):
    """Owns slots, bindings and ends. Everything else trusts it."""

    # --- hot ------------------------------------------------------------------------------------

    def place(self, job: Job, now: float, then: AfterPlace) -> None:
        """Claim the job's request if it has no job_id yet, hold a slot of `job.cells`, bind it.

        Without candidates the request is claimed, and the answer is FULL.
        """
        ...

    def finish(
        self, job: Job, ending: Ending, *, again: bool, now: float, then: AfterFinish
    ) -> None:
        """The node ended the attempt: free its slot, and end the job, or leave it to be tried
        again."""
        ...

    def check_acknowledged(self, job: Job, now: float, then: AfterCheck) -> None:
        """Whether the job's node acknowledged it to another instance."""
        ...

    # --- ends without a node's word -------------------------------------------------------------

    def end(self, job: Job, ending: Ending, now: float, then: AfterFinish) -> None:
        """Give a job that is not out its end. ENDED: it has one, this or one it had before;
        MOVED: another instance drives it."""
        ...

    def leave(
        self, job: Job, error: ErrorInfo, now: float, outcome: Outcome = Outcome.FAILED
    ) -> Leaving | None:
        """Take the job from its node. The slot stays held until the node lets go.

        None when the slot is free already. The job is without an attempt afterwards.
        """
        ...

    def drop(self, job: Job, error: ErrorInfo, now: float) -> Freed:
        """Take the job from a node that was never told of it; the slot is free at once."""
        ...

    def preempt(self, job: Job, now: float, then: AfterPreempt) -> None:
        """Have a batch attempt on a candidate give way, and make the job its heir.

        Where a slot came free meanwhile, the job is placed.
        """
        ...

    def renounce(self, job: Job) -> None:
        """The job is heir of no slot any more."""
        ...

    # --- reading --------------------------------------------------------------------------------

    def outlook_for(self, job: Job, now: float, then: AfterOutlook) -> None:
        """When a slot of the job's candidates can be expected."""
        ...
