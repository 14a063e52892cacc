"""The tenant's glossary over HTTP: list its terms, set some, remove one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from msgspec import Meta

from dragoman.api.audit_trail import note
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.auth import Permission, Principal, tenant_asked
from dragoman.glossary import Entry, Glossaries, GlossaryStore, StoredEntry, check_entry
from dragoman.live.protocol import ListPage, decode_body, utc_time

MAX_ENTRIES = 1000
"""Entries that one request may set."""

_MAX_NOTED = 200

Client = Annotated[Principal, Depends(require(Permission.GLOSSARY))]
TenantQuery = Annotated[
    str | None, Query(description="Another tenant's glossary (operators only).")
]


class GlossaryEntries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``PUT /api/v1/glossary``."""

    items: Annotated[tuple[Entry, ...], Meta(min_length=1, max_length=MAX_ENTRIES)]
    tenant_id: str | None = None


class EntryView(msgspec.Struct, frozen=True):
    """A term of the glossary."""

    src_lang: str
    tgt_lang: str | None
    term: str
    translation: str | None
    updated_at: str


_PAGE = shown_as("GlossaryPage", ListPage[EntryView])
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": schema_of(GlossaryEntries)}},
    }
}


def glossary_router(prefix: str, store: GlossaryStore, glossaries: Glossaries) -> APIRouter:
    """Routes of the glossary. This instance knows of a change when it has answered."""
    router = APIRouter(prefix=f"{prefix}/glossary", tags=["glossary"])

    @router.get(
        "",
        summary="The tenant's terms, by language",
        response_class=Response,
        responses={200: {"model": _PAGE}},
    )
    async def known(
        client: Client,
        page: Paging,
        src_lang: Annotated[str | None, Query(description="Only terms of this language.")] = None,
        tgt_lang: Annotated[
            str | None, Query(description="Only terms with a translation into this language.")
        ] = None,
        tenant_id: TenantQuery = None,
    ) -> Response:
        tenant = tenant_asked(client, tenant_id)
        after = page.position(tuple[str, str, str])
        found = await store.page(tenant, page.limit + 1, after, src_lang, tgt_lang)
        shown = found[: page.limit]
        more = len(found) > page.limit
        cursor = encode_cursor(shown[-1].entry.key) if more else None
        return answer(ListPage([_view(one) for one in shown], cursor))

    @router.put(
        "",
        summary="Set terms: add them, or replace those of the same languages",
        response_class=Response,
        responses={200: {"model": _PAGE}},
        openapi_extra=_BODY,
    )
    async def set_entries(request: Request, client: Client) -> Response:
        asked = decode_body(await request.body(), GlossaryEntries)
        tenant = tenant_asked(client, asked.tenant_id)
        entries = [
            check_entry(entry, f"items[{number}]") for number, entry in enumerate(asked.items)
        ]
        note(request, glossary_of=tenant, terms=len(entries))
        stored = await store.set(tenant, entries)
        await glossaries.refresh()
        return answer(ListPage([_view(one) for one in stored]))

    @router.delete("", summary="Remove a term", status_code=204, response_class=Response)
    async def remove(
        request: Request,
        client: Client,
        src_lang: str,
        term: str,
        tgt_lang: str | None = None,
        tenant_id: TenantQuery = None,
    ) -> Response:
        tenant = tenant_asked(client, tenant_id)
        note(request, glossary_of=tenant, term=term[:_MAX_NOTED])
        await store.remove(tenant, src_lang, tgt_lang, term)
        await glossaries.refresh()
        return Response(status_code=204)

    return router


def _view(stored: StoredEntry) -> EntryView:
    entry = stored.entry
    return EntryView(
        entry.src_lang,
        entry.tgt_lang,
        entry.term,
        entry.translation,
        utc_time(stored.updated_at_ms),
    )
