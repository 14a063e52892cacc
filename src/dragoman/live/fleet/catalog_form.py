"""The form of a service catalog, as a catalog server answers it and as the local index holds it."""

from __future__ import annotations

from typing import Annotated

import msgspec

LARGEST_CATALOG_BYTES = 8 * 1024 * 1024

Text = Annotated[str, msgspec.Meta(max_length=256)]


class CatalogService(msgspec.Struct, frozen=True):
    """A service that nodes may offer."""

    service_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    type: Text
    """Also kinds that the scheduler does not know: the catalog only tells what there is."""
    version: Text
    name: Text | None = None


class CatalogProblem(Exception):
    """Raised when a catalog cannot be fetched or read; the message says why."""


class _Catalog(msgspec.Struct, frozen=True):
    services: tuple[CatalogService, ...]


_decoder = msgspec.json.Decoder(_Catalog)


def read_catalog(data: bytes) -> tuple[CatalogService, ...]:
    """The services of a catalog; a `CatalogProblem` when it is not one."""
    if len(data) > LARGEST_CATALOG_BYTES:
        raise too_large()
    try:
        return _decoder.decode(data).services
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogProblem(f"it is not a catalog: {error}") from error


def too_large() -> CatalogProblem:
    return CatalogProblem(f"it is larger than {LARGEST_CATALOG_BYTES // 1024 // 1024} MB")
