"""``GET /docs`` works where there is no internet: the server has everything the page asks for."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from tests.unit.api.application import asked, settings_in

_ADDRESSES = ("src", "href", "action", "data-openapi")
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


class Page(HTMLParser):
    """What a page loads, and what it runs itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inline = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.addresses += [value for name, value in attrs if name in _ADDRESSES and value]
        self.inline += "".join(value or "" for name, value in attrs if name.startswith("on"))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.inline += data.strip()


def answers(tmp_path: Path, *paths: str) -> list[httpx.Response]:
    async def scenario() -> list[httpx.Response]:
        async with asked(settings_in(tmp_path)) as (client, _):
            return [await client.get(path) for path in paths]

    return asyncio.run(scenario())


def test_the_page_names_nothing_on_another_host_and_the_server_has_all_it_names(
    tmp_path: Path,
) -> None:
    (page,) = answers(tmp_path, "/docs")
    assert page.status_code == 200
    named = [address for address in Page(page.text).addresses if not address.startswith("data:")]
    assert len(named) >= 4, "a page, its style, its program and the OpenAPI document"
    assert [address for address in named if _ELSEWHERE.match(address)] == []

    for address, asset in zip(named, answers(tmp_path, *named), strict=True):
        assert asset.status_code == 200, address
        assert len(asset.content) > 0, address


def test_the_page_runs_no_script_of_its_own_and_browsers_are_told_to_stay_here(
    tmp_path: Path,
) -> None:
    (page,) = answers(tmp_path, "/docs")
    assert Page(page.text).inline == ""
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "script-src 'self'" in policy
    assert "http" not in policy


def test_the_program_of_the_page_is_served_as_what_it_is(tmp_path: Path) -> None:
    script, style = answers(tmp_path, "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css")
    assert script.headers["content-type"].startswith("text/javascript")
    assert b"SwaggerUIBundle" in script.content
    assert style.headers["content-type"].startswith("text/css")
    for asset in (script, style):
        assert asset.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/redoc", "/docs/oauth2-redirect", "/docs/__init__.py", "/docs/"])
def test_no_other_page_of_the_framework_is_served(tmp_path: Path, path: str) -> None:
    (answer,) = answers(tmp_path, path)
    assert answer.status_code == 404
