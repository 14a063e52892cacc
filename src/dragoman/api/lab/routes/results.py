"""Results over HTTP: rows and aggregates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute
from starlette.responses import StreamingResponse

from dragoman.api.lab.desk import Desk
from dragoman.api.lab.orders import ResultsOrder, SortOrder, read_filter, read_order
from dragoman.api.lab.principals import asked_by
from dragoman.api.lab.views import HourView, TryView, view_hour, view_try
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.api.paging import MAX_LIMIT, decode_cursor, encode_cursor
from dragoman.auth import Access, Permission, Principal
from dragoman.errors import InvalidMessage
from dragoman.lab.exporting import FileFormat, file_format, written
from dragoman.lab.filters import parse_filter
from dragoman.lab.model import ResultRow
from dragoman.lab.results import HOUR_MS, MAX_HOURS, GroupedAggregates, Place, Sorting
from dragoman.live.protocol import ListPage

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS, Access.READ))]

FilterParameter = Annotated[str | None, Query(alias="filter", description="A filter, as JSON.")]
RunParameter = Annotated[str | None, Query(description="Results as this run left them.")]

MAX_SORT_FIELDS = 10
MAX_REPETITION = 2**31 - 1
DEFAULT_HOURS = 7 * 24

_ORDERS = {"asc": False, "desc": True}
_ALWAYS = ("item_id", "turn")
_MEDIA_TYPES = {
    FileFormat.CSV: "text/csv",
    FileFormat.JSONL: "application/x-ndjson",
    FileFormat.PARQUET: "application/vnd.apache.parquet",
}
_COLUMNS = tuple(field.name for field in msgspec.structs.fields(ResultRow))
_BODY = {
    "requestBody": {
        "required": False,
        "content": {"application/json": {"schema": schema_of(ResultsOrder)}},
    }
}


class ResultCount(msgspec.Struct, frozen=True):
    """How many rows there are."""

    count: int


def results_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of results."""
    router = APIRouter(
        prefix=f"{prefix}/experiments/{{experiment_id}}",
        tags=["experiments"],
        route_class=route_class,
    )

    @router.post(
        "/results",
        summary="Rows of an experiment, filtered and sorted, a page at a time",
        response_class=Response,
        responses={200: {"model": shown_as("ResultPage", ListPage[ResultRow])}},
        openapi_extra=_BODY,
    )
    async def results(experiment_id: str, request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), ResultsOrder)
        if not 1 <= order.limit <= MAX_LIMIT:
            raise InvalidMessage(f"limit is {order.limit}; it must be from 1 to {MAX_LIMIT}.")
        if len(order.sort) > MAX_SORT_FIELDS:
            raise InvalidMessage(
                f"sort names {len(order.sort):,} fields; at most {MAX_SORT_FIELDS} are allowed."
            )
        columns = _columns(order.columns)
        rows, place = await desk.results.page(
            caller.tenant,
            experiment_id,
            wanted=parse_filter(order.filter),
            sorting=[_sorting(sort) for sort in order.sort],
            after=None if order.cursor is None else decode_cursor(order.cursor, Place),
            most=order.limit,
            run_id=order.run_id,
        )
        items: list[Any] = list(rows)
        if columns is not None:
            items = [{name: getattr(row, name) for name in columns} for row in rows]
        return answer(ListPage(items, None if place is None else encode_cursor(place)))

    @router.get(
        "/results/count",
        summary="How many rows of an experiment pass a filter",
        response_class=Response,
        responses={200: {"model": shown_as("ResultCount", ResultCount)}},
    )
    async def count(
        experiment_id: str,
        caller: Caller,
        desk: Desk,
        wanted: FilterParameter = None,
        run_id: RunParameter = None,
    ) -> Response:
        found = await desk.results.count(
            caller.tenant, experiment_id, wanted=parse_filter(read_filter(wanted)), run_id=run_id
        )
        return answer(ResultCount(found))

    @router.get(
        "/items/{item_id}/tries",
        summary="Every try of an item, in every run, the latest first",
        response_class=Response,
        responses={200: {"model": shown_as("TryPage", ListPage[TryView])}},
    )
    async def tries(
        experiment_id: str,
        item_id: str,
        caller: Caller,
        desk: Desk,
        repetition: Annotated[
            int, Query(ge=1, le=MAX_REPETITION, description="Which repetition, from 1.")
        ] = 1,
    ) -> Response:
        found = await desk.results.tries(caller.tenant, experiment_id, item_id, repetition)
        return answer(ListPage([view_try(one) for one in found], None))

    @router.get(
        "/aggregates",
        summary="The aggregates of an experiment's rows, so far or final",
        response_class=Response,
        responses={200: {"model": shown_as("Aggregates", GroupedAggregates)}},
    )
    async def aggregates(
        experiment_id: str,
        caller: Caller,
        desk: Desk,
        wanted: FilterParameter = None,
        run_id: RunParameter = None,
        group_by: Annotated[
            str | None,
            Query(description="A column of the input: the same for each of its values too."),
        ] = None,
        cluster: Annotated[
            str | None,
            Query(
                description="A column of the input, such as a speaker: intervals take the rows of "
                "one value for one observation, not those of one item."
            ),
        ] = None,
    ) -> Response:
        found = await desk.results.aggregates(
            caller.tenant,
            experiment_id,
            wanted=parse_filter(read_filter(wanted)),
            run_id=run_id,
            group_by=group_by,
            cluster=cluster,
        )
        return answer(found)

    @router.get(
        "/hours",
        summary="The scores of each hour in which there were any, the earliest first",
        response_class=Response,
        responses={200: {"model": shown_as("HourPage", ListPage[HourView])}},
    )
    async def hours(
        experiment_id: str,
        caller: Caller,
        desk: Desk,
        most: Annotated[
            int, Query(alias="hours", ge=1, le=MAX_HOURS, description="How far back.")
        ] = DEFAULT_HOURS,
    ) -> Response:
        since_ms = desk.context.clock.now_ms() - most * HOUR_MS
        found = await desk.results.by_hour(caller.tenant, experiment_id, since_ms=since_ms)
        return answer(ListPage([view_hour(one) for one in found], None))

    @router.get(
        "/export",
        summary="An experiment's rows as a file",
        response_class=Response,
        responses={
            200: {
                "description": "The file, as it is read",
                "content": {
                    media: {"schema": {"type": "string"}} for media in _MEDIA_TYPES.values()
                },
            }
        },
    )
    async def export(
        experiment_id: str,
        caller: Caller,
        desk: Desk,
        wanted: FilterParameter = None,
        run_id: RunParameter = None,
        named: Annotated[
            str, Query(alias="format", description="csv, jsonl or parquet.")
        ] = FileFormat.JSONL.value,
    ) -> Response:
        as_file = file_format(named)
        passing = parse_filter(read_filter(wanted))
        # Whatever is wrong with the question is said before the first byte.
        shown = await desk.lab.experiments.show(caller.tenant, experiment_id)
        await desk.results.page(caller.tenant, experiment_id, wanted=passing, most=1, run_id=run_id)
        columns = await desk.results.columns(caller.tenant, experiment_id, run_id=run_id)

        def rows() -> AsyncIterator[list[ResultRow]]:
            return desk.results.stream(caller.tenant, experiment_id, wanted=passing, run_id=run_id)

        scores = [one.name for one in shown.experiment.spec.evaluators]
        people = await desk.annotations.names(caller.tenant, experiment_id)
        return StreamingResponse(
            written(rows, columns, scores, as_file, people),
            media_type=_MEDIA_TYPES[as_file],
            headers={"Content-Disposition": f'attachment; filename="{experiment_id}.{as_file}"'},
        )

    return router


def _sorting(sort: SortOrder) -> Sorting:
    if sort.order not in _ORDERS:
        raise InvalidMessage(f"sort order {sort.order!r} is not known; use asc or desc.")
    return Sorting(sort.field, _ORDERS[sort.order])


def _columns(asked: list[str] | None) -> list[str] | None:
    """The fields of a row that are wanted, with those that tell which row it is."""
    if asked is None:
        return None
    for name in asked:
        if name not in _COLUMNS:
            raise InvalidMessage(f"Rows have no {name!r}; they have {', '.join(_COLUMNS)}.")
    return list(dict.fromkeys((*_ALWAYS, *asked)))
