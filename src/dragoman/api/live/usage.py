"""What tenants have used, by day, as JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.auth import Permission, Principal, sees_every_tenant, tenant_asked
from dragoman.live.protocol import ListPage
from dragoman.usage import DayUsage, UsageStore, UsageWriter

Client = Annotated[Principal, Depends(require(Permission.USAGE))]


class UsageFormat(StrEnum):
    """How usage is written."""

    JSON = "json"
    CSV = "csv"


def usage_router(prefix: str, store: UsageStore, writer: UsageWriter) -> APIRouter:
    """The route of usage. What this instance has counted is in every answer; what others count
    comes a few seconds later."""
    router = APIRouter(prefix=f"{prefix}/usage", tags=["usage"])

    @router.get(
        "",
        summary="What the tenant used, by day; an operator sees every tenant",
        response_class=Response,
        responses={
            200: {
                "model": shown_as("UsagePage", ListPage[DayUsage]),
                "content": {"text/csv": {"schema": {"type": "string"}}},
            }
        },
    )
    async def used(
        client: Client,
        page: Paging,
        first: Annotated[
            date | None, Query(alias="from", description="The first day, as 2026-01-31 (UTC).")
        ] = None,
        last: Annotated[
            date | None, Query(alias="to", description="The last day, which is included.")
        ] = None,
        tenant_id: Annotated[
            str | None, Query(description="One tenant only (operators; others have their own).")
        ] = None,
        format_: Annotated[
            UsageFormat, Query(alias="format", description="csv answers with all days at once.")
        ] = UsageFormat.JSON,
    ) -> Response:
        tenant = tenant_asked(client, tenant_id)
        everyone = sees_every_tenant(client) and tenant_id is None
        await writer.write()
        whole = format_ is UsageFormat.CSV
        found = await store.page(
            None if whole else page.limit + 1,
            tenant=None if everyone else tenant,
            first_day=None if first is None else first.isoformat(),
            last_day=None if last is None else last.isoformat(),
            after=page.position(tuple[str, str]),
        )
        if whole:
            return Response(_as_csv(found), media_type="text/csv; charset=utf-8")
        shown = found[: page.limit]
        more = len(found) > page.limit
        cursor = encode_cursor((shown[-1].day, shown[-1].tenant_id)) if more else None
        return answer(ListPage(shown, cursor))

    return router


def _as_csv(days: Iterable[DayUsage]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(DayUsage.__struct_fields__)
    for day in days:
        writer.writerow([_cell(value) for value in msgspec.structs.astuple(day)])
    return text.getvalue()


def _cell(value: object) -> object:
    """A tenant chooses its name: none is a formula to the program that opens the table."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return value
