"""The service catalog over HTTP: which services there are, and how fresh the knowledge is."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Depends, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.permissions import require
from dragoman.auth import Permission
from dragoman.live.fleet import CatalogService, CatalogState, ServiceCatalog
from dragoman.live.protocol import utc_time


class CatalogView(msgspec.Struct, frozen=True):
    """The services known now; while the catalog server fails, those it named last."""

    services: tuple[CatalogService, ...]
    fetched_at: str | None
    """When these services were read, from the server or from the local index."""
    last_success_at: str | None
    """When the server last answered with a catalog."""
    fail_count: int
    last_error: str | None
    next_refresh_at: str | None


def catalog_router(prefix: str, catalog: ServiceCatalog) -> APIRouter:
    """The route of the service catalog. It never asks the catalog server."""
    router = APIRouter(
        prefix=f"{prefix}/catalog",
        tags=["catalog"],
        dependencies=[Depends(require(Permission.CATALOG))],
    )

    @router.get(
        "",
        summary="The known services, and how the last fetch went",
        response_class=Response,
        responses={200: {"model": shown_as("Catalog", CatalogView)}},
    )
    async def known() -> Response:
        return answer(catalog_view(catalog.state))

    return router


def catalog_view(state: CatalogState) -> CatalogView:
    """The catalog as an operator sees it."""
    return CatalogView(
        services=state.services,
        fetched_at=_shown(state.fetched_at_ms),
        last_success_at=_shown(state.last_success_at_ms),
        fail_count=state.fail_count,
        last_error=state.last_error,
        next_refresh_at=_shown(state.next_refresh_at_ms),
    )


def _shown(at_ms: int | None) -> str | None:
    return None if at_ms is None else utc_time(at_ms)
