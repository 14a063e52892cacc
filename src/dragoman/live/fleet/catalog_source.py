"""Fetches the service catalog."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

import httpx

from dragoman.live.fleet.catalog_form import LARGEST_CATALOG_BYTES, CatalogProblem, too_large


class CatalogSource(Protocol):
    """A source of catalogs."""

    async def fetch(self) -> bytes:
        """The catalog as it was answered; raises `CatalogProblem` when there is none to read."""
        ...

    async def close(self) -> None: ...


class HttpCatalogSource:
    """A catalog server. It is trusted with nothing: not with time, size or another address."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        # The client's line for each request would tell the address, which may hold a password.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        # What the environment says about proxies and passwords is not meant for the catalog.
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=timeout_seconds,
            follow_redirects=False,
            trust_env=False,
        )

    async def fetch(self) -> bytes:
        try:
            # The client's own limit is for each step; a server that drips would never end.
            async with asyncio.timeout(self._timeout_seconds):
                return await self._fetch()
        except (TimeoutError, httpx.TimeoutException) as error:
            raise CatalogProblem(f"no whole answer within {self._timeout_seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CatalogProblem(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _fetch(self) -> bytes:
        async with self._client.stream("GET", self._url) as answer:
            if answer.is_redirect:
                raise CatalogProblem(
                    f"the answer was a redirect ({answer.status_code}), which is not followed; "
                    "set scheduler.service_catalog.url to where the catalog is"
                )
            if answer.status_code != httpx.codes.OK:
                raise CatalogProblem(f"the answer was status {answer.status_code}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise CatalogProblem("the answer was compressed; the request did not allow that")
            if int(answer.headers.get("Content-Length", 0)) > LARGEST_CATALOG_BYTES:
                raise too_large()
            return await _read(answer)


async def _read(answer: httpx.Response) -> bytes:
    found = bytearray()
    async for piece in answer.aiter_raw():
        found += piece
        if len(found) > LARGEST_CATALOG_BYTES:
            raise too_large()
    return bytes(found)
