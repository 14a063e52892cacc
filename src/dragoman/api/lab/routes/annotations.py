"""Annotations over HTTP: what people say of the rows of an experiment."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk
from dragoman.api.lab.orders import AnnotationOrder, read_annotations
from dragoman.api.lab.principals import asked_by
from dragoman.api.lab.views import AnnotationView, view_annotation
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.auth import Permission, Principal
from dragoman.lab.annotations import Put
from dragoman.live.protocol import ListPage

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS))]

ANYONE = "anyone"
"""The annotator where callers need no key and give no name."""


class PutView(msgspec.Struct, frozen=True):
    """What became of several annotations, in their order."""

    annotations: list[Put]


def annotations_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of annotations."""
    router = APIRouter(
        prefix=f"{prefix}/experiments/{{experiment_id}}/annotations",
        tags=["experiments"],
        route_class=route_class,
    )

    @router.post(
        "",
        summary="Say what a person thinks of a row, or of many; said again, it is changed",
        status_code=201,
        response_class=Response,
        responses={
            200: {"model": shown_as("PutAnnotation", Put), "description": "It was changed"},
            201: {"model": shown_as("PutAnnotation", Put), "description": "It is new"},
        },
        openapi_extra=_BODY,
    )
    async def annotate(
        experiment_id: str, request: Request, caller: Caller, desk: Desk
    ) -> Response:
        orders, are_many = read_annotations(await request.body())
        own = caller.key_id or ANYONE
        given = [order.annotation(own) for order in orders]
        put = await desk.annotations.put(caller.tenant, experiment_id, given)
        status = 201 if any(one.created for one in put) else 200
        return answer(PutView(put) if are_many else put[0], status)

    @router.get(
        "",
        summary="What people said of the rows of an experiment, the earliest first",
        response_class=Response,
        responses={200: {"model": shown_as("AnnotationPage", ListPage[AnnotationView])}},
    )
    async def every(experiment_id: str, caller: Caller, desk: Desk, page: Paging) -> Response:
        found = await desk.annotations.every(
            caller.tenant,
            experiment_id,
            after=page.position(tuple[int, str]),
            most=page.limit + 1,
        )
        more = None
        if len(found) > page.limit:
            last = found[page.limit - 1]
            more = encode_cursor((last.at_ms, last.annotation_id))
        return answer(ListPage([view_annotation(one) for one in found[: page.limit]], more))

    @router.delete(
        "/{annotation_id}",
        summary="Remove an annotation",
        status_code=204,
        response_class=Response,
    )
    async def remove(
        experiment_id: str, annotation_id: str, caller: Caller, desk: Desk
    ) -> Response:
        await desk.annotations.remove(caller.tenant, experiment_id, annotation_id)
        return Response(status_code=204)

    return router


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        schema_of(AnnotationOrder),
                        {
                            "type": "object",
                            "properties": {
                                "annotations": {
                                    "type": "array",
                                    "items": schema_of(AnnotationOrder),
                                }
                            },
                            "required": ["annotations"],
                        },
                    ]
                }
            }
        },
    }
}
