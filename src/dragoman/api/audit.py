"""``GET /audit``: what operators did, newest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.audit import AuditEntry, AuditFilter, AuditOutcome, AuditStore
from dragoman.auth import Permission
from dragoman.live.protocol import ListPage, utc_time

PREFIX = "/api/v1"


class AuditEntryView(msgspec.Struct, frozen=True):
    """Who did what, to what, when, and how it ended."""

    entry_id: str
    at: str
    actor: str
    """The id of a key, `cli:` and a user of the machine, or `anyone` in open mode."""
    role: str | None
    tenant_id: str
    address: str
    action: str
    subject: str
    outcome: AuditOutcome
    facts: dict[str, Any]


def audit_router(store: AuditStore) -> APIRouter:
    """The route of the audit log."""
    router = APIRouter(
        prefix=f"{PREFIX}/audit",
        tags=["audit"],
        dependencies=[Depends(require(Permission.AUDIT))],
    )

    @router.get(
        "",
        summary="What operators did, newest first",
        response_class=Response,
        responses={200: {"model": shown_as("AuditPage", ListPage[AuditEntryView])}},
    )
    async def entries(
        page: Paging,
        actor: Annotated[str | None, Query(description="Only what this key did.")] = None,
        action: Annotated[str | None, Query(description="Only this, as `node.drain`.")] = None,
        subject: Annotated[str | None, Query(description="Only what was done to this.")] = None,
        outcome: Annotated[AuditOutcome | None, Query(description="Only what ended so.")] = None,
        since: Annotated[
            datetime | None, Query(alias="from", description="Not before this time.")
        ] = None,
        until: Annotated[
            datetime | None, Query(alias="to", description="Only before this time.")
        ] = None,
    ) -> Response:
        wanted = AuditFilter(
            actor=actor,
            action=action,
            subject=subject,
            outcome=outcome,
            from_ms=_at_ms(since),
            to_ms=_at_ms(until),
        )
        found = await store.page(page.limit + 1, wanted, page.position(tuple[int, str]))
        shown = found[: page.limit]
        more = len(found) > page.limit
        cursor = encode_cursor((shown[-1].at_ms, shown[-1].entry_id)) if more else None
        return answer(ListPage([_view(one) for one in shown], cursor))

    return router


def _at_ms(moment: datetime | None) -> int | None:
    """A time without a zone is one of UTC."""
    if moment is None:
        return None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def _view(entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(
        entry_id=entry.entry_id,
        at=utc_time(entry.at_ms),
        actor=entry.actor,
        role=entry.role,
        tenant_id=entry.tenant,
        address=entry.address,
        action=entry.action,
        subject=entry.subject,
        outcome=entry.outcome,
        facts=dict(entry.facts),
    )
