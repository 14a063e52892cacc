"""``GET /docs`` is a page of the console: no other host, no exception to its policy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from tests.unit.api.application import asked, settings_in


def answers(tmp_path: Path, *paths: str) -> list[httpx.Response]:
    async def scenario() -> list[httpx.Response]:
        async with asked(settings_in(tmp_path)) as (client, _):
            return [await client.get(path) for path in paths]

    return asyncio.run(scenario())


def test_the_page_is_the_consoles_own_with_the_same_policy(tmp_path: Path) -> None:
    docs, nodes, document = answers(tmp_path, "/docs", "/nodes", "/openapi.json")
    assert (docs.status_code, document.status_code) == (nodes.status_code, 200)
    policy = docs.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "data:" not in policy
    assert "http" not in policy
    assert "script-src 'self';" in policy
    assert docs.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/redoc", "/docs-oauth2-redirect"])
def test_no_page_of_the_framework_is_served(tmp_path: Path, path: str) -> None:
    (answer,) = answers(tmp_path, path)
    assert answer.status_code == 404
