"""Why each job went where it went, for the jobs of late."""

from __future__ import annotations

from collections import OrderedDict

from dragoman.ids import JobId
from dragoman.live.dispatch.choice import Decision
from dragoman.live.protocol import AttemptExplanation, ExplainView


class Explanations:
    """The decisions about the newest jobs; older ones make room.

    They are kept as what will be told, not as what was looked at: a decision holds its snapshot,
    and with it every cell of the fleet as it was then.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._told: OrderedDict[JobId, list[tuple[AttemptExplanation, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._told)

    def keep(self, job_id: JobId, tries: tuple[Decision, ...]) -> None:
        """Remember how a node was looked for; a search that repeats a vain one takes its place."""
        known = self._told.get(job_id)
        if known is None:
            known = self._told[job_id] = []
            if len(self._told) > self._limit:
                self._told.popitem(last=False)
        elif known[-1][-1].chosen is None:
            known.pop()
        number = len(known) + 1
        known.append(tuple(decision.explanation(number) for decision in tries))

    def of(self, job_id: JobId) -> ExplainView | None:
        known = self._told.get(job_id)
        if known is None:
            return None
        return ExplainView(job_id, tuple(told for tries in known for told in tries))
