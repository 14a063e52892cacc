"""The last hour over HTTP, minute by minute: of the whole, of language pairs, of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.live.peers import Peers
from dragoman.api.permissions import require
from dragoman.auth import Permission
from dragoman.ids import InstanceId
from dragoman.live.dispatch import MINUTES, JobHistory, MinuteSeries
from dragoman.live.protocol import utc_time

MINUTE_MS = 60_000
MOST = 200

Name = Annotated[
    str | None, Query(max_length=256, description="One pair, such as en:es, or one node.")
]
Limit = Annotated[int, Query(ge=1, le=MOST, description="How many of the busiest.")]


class HistoryBy(StrEnum):
    """What the history of the last hour is told apart by."""

    PAIR = "pair"
    NODE = "node"


class HistoryItem(msgspec.Struct, frozen=True):
    """The hour of one pair or node."""

    name: str
    series: MinuteSeries


class HistoryShown(msgspec.Struct, frozen=True):
    """Sixty minutes, the last of which goes on."""

    began_at: str
    """When the first of the sixty minutes began."""
    last_minute: int
    """The number of the last one, in minutes since 1970."""
    by: HistoryBy
    total: MinuteSeries
    """Every job that ended."""
    items: Sequence[HistoryItem]
    """The busiest first; of several instances, the busiest of each."""
    unreachable: tuple[InstanceId, ...] = ()
    """Instances that are present and did not answer: their jobs are not counted here."""


def history_router(prefix: str, history: JobHistory, peers: Peers) -> APIRouter:
    """The route for pictures of the last hour. It passes over counters, never over jobs."""
    router = APIRouter(
        prefix=f"{prefix}/history",
        tags=["stats"],
        dependencies=[Depends(require(Permission.STATS))],
    )

    def own(by: HistoryBy, name: str | None, limit: int) -> HistoryShown:
        last = history.last_minute()
        if name is None:
            busiest = history.pairs if by is HistoryBy.PAIR else history.nodes
            found = busiest(last, limit)
        else:
            one_of = history.pair if by is HistoryBy.PAIR else history.node
            one = one_of(name, last)
            found = [] if one is None else [(name, one)]
        return HistoryShown(
            began_at=_began_at(last),
            last_minute=last,
            by=by,
            total=history.total(last),
            items=[HistoryItem(name, series) for name, series in found],
        )

    @router.get(
        "",
        summary="The last hour minute by minute, by language pair or by node",
        response_class=Response,
        responses={200: {"model": shown_as("History", HistoryShown)}},
    )
    async def hour(
        request: Request, by: HistoryBy = HistoryBy.PAIR, name: Name = None, limit: Limit = 20
    ) -> Response:
        ours = own(by, name, limit)
        if peers.answers_alone(request):
            return answer(ours)
        answers = await peers.ask_all(request)
        theirs = [
            msgspec.json.decode(body, type=HistoryShown)
            for body in answers.values()
            if body is not None
        ]
        merged = merged_history([ours, *theirs], limit)
        unreachable = tuple(peer for peer, body in answers.items() if body is None)
        return answer(msgspec.structs.replace(merged, unreachable=unreachable))

    return router


def merged_history(parts: Sequence[HistoryShown], limit: int) -> HistoryShown:
    """The hour of several instances, whose clocks may stand at different minutes."""
    last = max(part.last_minute for part in parts)
    by_name: dict[str, list[MinuteSeries]] = {}
    for part in parts:
        for item in part.items:
            shifted = _shifted(item.series, last - part.last_minute)
            by_name.setdefault(item.name, []).append(shifted)
    items = [HistoryItem(name, sum_series(series)) for name, series in by_name.items()]
    items.sort(key=lambda item: (-_activity(item.series), item.name))
    return HistoryShown(
        began_at=_began_at(last),
        last_minute=last,
        by=parts[0].by,
        total=sum_series(_shifted(part.total, last - part.last_minute) for part in parts),
        items=items[:limit],
    )


def sum_series(several: Iterable[MinuteSeries]) -> MinuteSeries:
    """The same thing at several instances, minute by minute."""
    several = list(several)
    jobs = [sum(counts) for counts in zip(*(each.jobs for each in several), strict=True)]
    total_ms = [0.0] * MINUTES
    for each in several:
        for minute, (count, mean) in enumerate(zip(each.jobs, each.mean_ms, strict=True)):
            total_ms[minute] += count * (mean or 0.0)
    return MinuteSeries(
        jobs=jobs,
        failed=[sum(counts) for counts in zip(*(each.failed for each in several), strict=True)],
        refused=[sum(counts) for counts in zip(*(each.refused for each in several), strict=True)],
        mean_ms=[
            round(total / count, 3) if count else None
            for total, count in zip(total_ms, jobs, strict=True)
        ],
        longest_ms=[max(most) for most in zip(*(each.longest_ms for each in several), strict=True)],
    )


def _shifted(series: MinuteSeries, minutes: int) -> MinuteSeries:
    """As a reader sees it whose last minute came so many later."""
    late = min(minutes, MINUTES)
    if not late:
        return series
    nothing = [0] * late
    return MinuteSeries(
        jobs=[*series.jobs[late:], *nothing],
        failed=[*series.failed[late:], *nothing],
        refused=[*series.refused[late:], *nothing],
        mean_ms=[*series.mean_ms[late:], *([None] * late)],
        longest_ms=[*series.longest_ms[late:], *nothing],
    )


def _activity(series: MinuteSeries) -> int:
    return sum(series.jobs) + sum(series.failed) + sum(series.refused)


def _began_at(last_minute: int) -> str:
    return utc_time((last_minute - MINUTES + 1) * MINUTE_MS)
