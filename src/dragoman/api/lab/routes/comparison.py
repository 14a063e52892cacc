"""Comparing experiments over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk
from dragoman.api.lab.orders import CompareOrder, read_order
from dragoman.api.lab.principals import asked_by
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.auth import Access, Permission, Principal
from dragoman.lab.comparison import Comparison

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS, Access.READ))]

_MARKDOWN = "text/markdown"
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": schema_of(CompareOrder)}},
    }
}


def comparison_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """The route that compares."""
    router = APIRouter(
        prefix=f"{prefix}/experiments", tags=["experiments"], route_class=route_class
    )

    @router.post(
        "/compare",
        summary="Compare runs with a baseline, on the items that they share",
        response_class=Response,
        responses={200: {"model": shown_as("Comparison", Comparison)}},
        openapi_extra=_BODY,
    )
    async def compare(request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), CompareOrder)
        return answer(await desk.comparisons.compare(caller.tenant, order.ask()))

    @router.post(
        "/compare/report",
        summary="The same comparison as a report in Markdown",
        response_class=Response,
        responses={
            200: {
                "description": "The report",
                "content": {_MARKDOWN: {"schema": {"type": "string"}}},
            }
        },
        openapi_extra=_BODY,
    )
    async def report(request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), CompareOrder)
        compared = await desk.comparisons.compare(caller.tenant, order.ask())
        headers = {"Content-Disposition": 'attachment; filename="comparison.md"'}
        return Response(compared.to_markdown(), media_type=_MARKDOWN, headers=headers)

    return router
