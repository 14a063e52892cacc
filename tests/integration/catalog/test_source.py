"""Fetching a catalog from servers that do everything but answer well."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.integration.catalog.catalog_server import CatalogServer, catalog

from dragoman.live.fleet import HttpCatalogSource
from dragoman.live.fleet.catalog import CatalogProblem, read_catalog


@pytest.fixture
def server() -> Iterator[CatalogServer]:
    with CatalogServer() as server:
        yield server


def fetch(url: str, timeout_seconds: float = 30.0) -> bytes:
    async def once() -> bytes:
        source = HttpCatalogSource(url, timeout_seconds)
        try:
            return await source.fetch()
        finally:
            await source.close()

    return asyncio.run(once())


def test_a_catalog_is_fetched_as_it_is(server: CatalogServer) -> None:
    assert fetch(server.url) == catalog()


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("redirecting", r"redirect \(302\).*service_catalog\.url"),
        ("failing", "status 503"),
        ("10 MB", "larger than 8 MB"),
        ("endless", "larger than 8 MB"),
        ("compressed", "compressed"),
        ("down", "."),
    ],
)
def test_every_answer_that_is_no_catalog_says_what_it_was(
    server: CatalogServer, mode: str, said: str
) -> None:
    server.become(mode)
    with pytest.raises(CatalogProblem, match=said):
        fetch(server.url)


@pytest.mark.parametrize("mode", ["hanging", "dripping"])
def test_a_server_that_does_not_come_to_an_end_is_given_up(
    server: CatalogServer, mode: str
) -> None:
    server.become(mode)
    with pytest.raises(CatalogProblem, match=r"within 0\.3 s"):
        fetch(server.url, timeout_seconds=0.3)


@pytest.mark.parametrize("mode", ["garbage", "another form"])
def test_what_was_fetched_may_still_not_be_a_catalog(server: CatalogServer, mode: str) -> None:
    server.become(mode)
    with pytest.raises(CatalogProblem, match="not a catalog"):
        read_catalog(fetch(server.url))


def test_a_redirect_is_not_followed(server: CatalogServer) -> None:
    server.become("redirecting")
    with pytest.raises(CatalogProblem):
        fetch(server.url)
    assert len(server.asked_at) == 1
