"""Why each job went where it went, for the jobs of late: kept as data, drawn when asked."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from dragoman.ids import JobId
from dragoman.live.dispatch.selection import Decision, Search
from dragoman.live.protocol import AttemptExplanation, ExplainView, WaitingView


class Kept(msgspec.Struct, frozen=True, gc=False):
    """One look for a node: its decisions, with the cells asked for each."""

    decisions: tuple[Decision, ...]
    tried: tuple[tuple[int, ...], ...]

    @property
    def was_vain(self) -> bool:
        return self.decisions[-1].chosen is None


class Explanations:
    """The decisions about the newest jobs; older ones make room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.local_first = False
        """Nodes of this instance come first, and explanations say so."""
        self._kept: OrderedDict[JobId, Decision | list[Kept]] = OrderedDict()
        """Mostly there is one decision, and it is kept as it is."""

    def __len__(self) -> int:
        return len(self._kept)

    def chose(self, job_id: JobId, decision: Decision) -> None:
        """A node was chosen at the first look."""
        kept = self._kept
        if job_id in kept:
            self._keep(job_id, _as_kept(decision))
            return
        kept[job_id] = decision
        if len(kept) > self._limit:
            kept.popitem(last=False)

    def searched(self, job_id: JobId, search: Search) -> None:
        """A search came to its end; one that repeats a vain one takes its place."""
        self._keep(job_id, Kept(tuple(search.decisions), tuple(map(tuple, search.tried))))

    def of(self, job_id: JobId, waiting: WaitingView | None) -> ExplainView | None:
        """What is known of a job; None when nothing is kept and it does not wait."""
        kept = self._kept.get(job_id)
        if kept is None:
            return ExplainView(job_id, (), waiting) if waiting is not None else None
        looks = kept if isinstance(kept, list) else [_as_kept(kept)]
        told: list[AttemptExplanation] = []
        for number, look in enumerate(looks, 1):
            for decision, tried in zip(look.decisions, look.tried, strict=True):
                told.append(decision.explanation(number, tried, local_first=self.local_first))
        return ExplainView(job_id, tuple(told), waiting)

    def _keep(self, job_id: JobId, look: Kept) -> None:
        known = self._kept.get(job_id)
        if known is None:
            self._kept[job_id] = [look]
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
            return
        looks = known if isinstance(known, list) else [_as_kept(known)]
        if looks[-1].was_vain:
            looks.pop()
        looks.append(look)
        self._kept[job_id] = looks


def _as_kept(decision: Decision) -> Kept:
    return Kept((decision,), ((decision.views[0].number,),))
