"""Datasets over HTTP: import, list, show, export, delete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute
from starlette.responses import FileResponse, StreamingResponse

from dragoman.api.lab.desk import Desk, LabDesk
from dragoman.api.lab.principals import asked_by
from dragoman.api.lab.uploads import UPLOAD_BODY, Upload, received_upload
from dragoman.api.lab.views import (
    DatasetView,
    DifferenceView,
    ImportedView,
    ItemView,
    VersionView,
    view_dataset,
    view_difference,
    view_imported,
    view_item,
    view_version,
)
from dragoman.api.live.documents import answer, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.auth import Permission, Principal
from dragoman.errors import InvalidMessage, NotFound
from dragoman.lab.datasets import format_of
from dragoman.lab.library import ImportProgress, bundled, difference, exported
from dragoman.live.protocol import ListPage

Caller = Annotated[Principal, Depends(asked_by(Permission.DATASETS))]
Number = Annotated[int | None, Query(ge=1, description="A version's number; default: the latest.")]

_IMPORTED = shown_as("ImportedDataset", ImportedView)
_MEDIA_TYPES = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}


def datasets_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of datasets."""
    router = APIRouter(prefix=f"{prefix}/datasets", tags=["datasets"], route_class=route_class)

    @router.post(
        "",
        summary="Make a dataset of a file",
        status_code=201,
        response_class=Response,
        responses={201: {"model": _IMPORTED}},
        openapi_extra=UPLOAD_BODY,
    )
    async def add(request: Request, caller: Caller, desk: Desk) -> Response:
        async with received_upload(request, is_local=desk.is_local) as upload:
            if upload.name is None:
                raise InvalidMessage("A dataset needs a name; send a form field `name`.")
            with _watched(desk, caller, upload) as progress:
                imported = await desk.library.add(
                    caller.tenant,
                    upload.name,
                    upload.file,
                    upload.file_format,
                    upload.schema,
                    upload.audio,
                    progress,
                )
        return answer(view_imported(imported), 201)

    @router.get(
        "",
        summary="The tenant's datasets, by name",
        response_class=Response,
        responses={200: {"model": shown_as("DatasetPage", ListPage[DatasetView])}},
    )
    async def every(
        caller: Caller,
        desk: Desk,
        page: Paging,
        name: Annotated[str | None, Query(description="Only the dataset of this name.")] = None,
    ) -> Response:
        if name is not None:
            found = await desk.library.find_named(caller.tenant, name)
            return answer(ListPage([] if found is None else [view_dataset(found)], None))
        after = page.position(str) or ""
        listed = await desk.library.list(caller.tenant, after=after, most=page.limit + 1)
        shown = listed[: page.limit]
        more = encode_cursor(shown[-1].name) if len(listed) > page.limit else None
        return answer(ListPage([view_dataset(one) for one in shown], more))

    @router.get(
        "/imports/{import_id}",
        summary="How far an import has come that its caller gave an id",
        response_class=Response,
        responses={200: {"model": shown_as("ImportProgress", ImportProgress)}},
    )
    async def import_progress(import_id: str, caller: Caller, desk: Desk) -> Response:
        found = desk.imports.get((caller.tenant, import_id))
        if found is None:
            raise NotFound(f"No import {import_id} is under way.")
        return answer(found)

    @router.get(
        "/{dataset_id}",
        summary="A dataset",
        response_class=Response,
        responses={200: {"model": shown_as("Dataset", DatasetView)}},
    )
    async def one(dataset_id: str, caller: Caller, desk: Desk) -> Response:
        return answer(view_dataset(await desk.library.find(caller.tenant, dataset_id)))

    @router.delete(
        "/{dataset_id}",
        summary="Delete a dataset and all its versions; refused while an experiment uses one",
        status_code=204,
        response_class=Response,
    )
    async def delete(dataset_id: str, caller: Caller, desk: Desk) -> Response:
        await desk.library.delete(caller.tenant, dataset_id)
        return Response(status_code=204)

    @router.get(
        "/{dataset_id}/versions",
        summary="Every version of a dataset, the latest first",
        response_class=Response,
        responses={200: {"model": shown_as("VersionPage", ListPage[VersionView])}},
    )
    async def versions(dataset_id: str, caller: Caller, desk: Desk) -> Response:
        found = await desk.library.versions(caller.tenant, dataset_id)
        return answer(ListPage([view_version(version) for version in found], None))

    @router.post(
        "/{dataset_id}/versions",
        summary="Make the next version of a dataset; the same rows and schema are the same version",
        status_code=201,
        response_class=Response,
        responses={201: {"model": _IMPORTED}},
        openapi_extra=UPLOAD_BODY,
    )
    async def add_version(
        dataset_id: str, request: Request, caller: Caller, desk: Desk
    ) -> Response:
        async with received_upload(request, is_local=desk.is_local) as upload:
            if upload.name is not None:
                raise InvalidMessage(
                    "A version has no name of its own; leave `name` out, or send the file to "
                    "/datasets to make a dataset of that name.",
                    details={"field": "name"},
                )
            with _watched(desk, caller, upload) as progress:
                imported = await desk.library.add_version(
                    caller.tenant,
                    dataset_id,
                    upload.file,
                    upload.file_format,
                    upload.schema,
                    upload.audio,
                    progress,
                )
        return answer(view_imported(imported), 201)

    @router.get(
        "/{dataset_id}/items",
        summary="Items of a version, in order",
        response_class=Response,
        responses={200: {"model": shown_as("ItemPage", ListPage[ItemView])}},
    )
    async def items(
        dataset_id: str, caller: Caller, desk: Desk, page: Paging, version: Number = None
    ) -> Response:
        found = await desk.library.version(caller.tenant, dataset_id, version)
        after = page.position(str) or ""
        listed = await desk.library.items(found.version_id, after=after, most=page.limit + 1)
        shown = listed[: page.limit]
        more = encode_cursor(shown[-1].item_id) if len(listed) > page.limit else None
        return answer(ListPage([view_item(item) for item in shown], more))

    @router.get(
        "/{dataset_id}/diff",
        summary="What changed from one version to another",
        response_class=Response,
        responses={200: {"model": shown_as("DatasetDifference", DifferenceView)}},
    )
    async def diff(
        dataset_id: str,
        caller: Caller,
        desk: Desk,
        before: Annotated[int, Query(alias="from", ge=1, description="The earlier version.")],
        after: Annotated[
            int | None,
            Query(alias="to", ge=1, description="The later version; default: the latest."),
        ] = None,
    ) -> Response:
        earlier = await desk.library.version(caller.tenant, dataset_id, before)
        later = await desk.library.version(caller.tenant, dataset_id, after)
        found = await difference(desk.library, earlier, later)
        return answer(view_difference(earlier, later, found))

    @router.get(
        "/{dataset_id}/export",
        summary="A version as a file",
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
        dataset_id: str,
        caller: Caller,
        desk: Desk,
        version: Number = None,
        file_format: Annotated[
            str, Query(alias="format", description="jsonl, csv or parquet.")
        ] = "jsonl",
        audio: Annotated[
            bool, Query(description="A zip that holds the file and the audio that it names.")
        ] = False,
    ) -> Response:
        wanted = format_of(file_format)
        found = await desk.library.version(caller.tenant, dataset_id, version)
        folder = desk.library.audio_folder
        if audio and folder is not None:
            return StreamingResponse(
                bundled(desk.library, folder, found, wanted),
                media_type="application/zip",
                headers=_as_file(f"{found.dataset_id}-{found.version}.zip"),
            )
        name = f"{found.dataset_id}-{found.version}.{wanted.value}"
        return StreamingResponse(
            exported(desk.library, found, wanted),
            media_type=_MEDIA_TYPES[wanted.value],
            headers=_as_file(name),
        )

    @router.get(
        "/{dataset_id}/audio/{sha256}",
        summary="An audio file of a dataset, whole or a range of it",
        response_class=Response,
        responses={
            200: {
                "description": "The bytes",
                "content": {"audio/*": {"schema": {"type": "string", "format": "binary"}}},
            },
            206: {"description": "The range that was asked for"},
        },
    )
    async def audio_file(dataset_id: str, sha256: str, caller: Caller, desk: Desk) -> Response:
        found = await desk.library.audio(caller.tenant, dataset_id, sha256)
        # The checksum is the content: a player need not ask twice.
        headers = {"Cache-Control": "private, max-age=31536000, immutable"}
        return FileResponse(found.path, media_type=found.media_type, headers=headers)

    return router


@contextmanager
def _watched(desk: LabDesk, caller: Principal, upload: Upload) -> Iterator[ImportProgress]:
    """What the caller sees of an import while it goes on."""
    progress = ImportProgress()
    if upload.import_id is None:
        yield progress
        return
    key = (caller.tenant, upload.import_id)
    desk.imports[key] = progress
    try:
        yield progress
    finally:
        desk.imports.pop(key, None)


def _as_file(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
