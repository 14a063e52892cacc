"""Why each job went where it went, for the jobs of late."""

from __future__ import annotations

from collections import OrderedDict

from dragoman.ids import JobId
from dragoman.live.dispatch.choice import Decision
from dragoman.live.protocol import ExplainView


class Explanations:
    """The decisions about the newest jobs; older ones make room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decisions: OrderedDict[JobId, list[tuple[Decision, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._decisions)

    def keep(self, job_id: JobId, tries: tuple[Decision, ...]) -> None:
        """Remember how a node was looked for; a search that repeats a vain one takes its place."""
        known = self._decisions.get(job_id)
        if known is None:
            self._decisions[job_id] = [tries]
            if len(self._decisions) > self._limit:
                self._decisions.popitem(last=False)
        elif known[-1][-1].chosen is None:
            known[-1] = tries
        else:
            known.append(tries)

    def of(self, job_id: JobId) -> ExplainView | None:
        decisions = self._decisions.get(job_id)
        if decisions is None:
            return None
        return ExplainView(
            job_id,
            tuple(
                decision.explanation(number)
                for number, tries in enumerate(decisions, start=1)
                for decision in tries
            ),
        )
