"""The console's pages: never from a cache, their files for ever, and no exception in the policy."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from dragoman.api.app import ANSWERS
from dragoman.api.console import console_router, read_built

PAGE = '<meta name="style-nonce" content="__STYLE_NONCE__"><script src="/assets/index-1a.js">'
PROGRAM = b"console.log(1);" * 100


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """What a build leaves: a page, and a program with its compressed forms beside it."""
    assets = tmp_path / "assets"
    assets.mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "licences.txt").write_text("Grüße: MIT")
    (assets / "index-1a.js").write_bytes(PROGRAM)
    (assets / "index-1a.js.gz").write_bytes(gzip.compress(PROGRAM))
    (assets / "index-1a.js.br").write_bytes(b"in brotli")
    (assets / "icon-2b.svg").write_text("<svg/>")
    return tmp_path


def get(folder: Path, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
    async def scenario() -> httpx.Response:
        app = FastAPI(exception_handlers=dict(ANSWERS))
        app.include_router(console_router(read_built(folder)))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(scenario())


def policy_of(answer: httpx.Response) -> dict[str, str]:
    directives = answer.headers["content-security-policy"].split("; ")
    return {name: sources for name, _, sources in (one.partition(" ") for one in directives)}


def test_the_page_is_never_cached_and_may_load_only_from_this_server(built: Path) -> None:
    answer = get(built, "/")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    policy = policy_of(answer)
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in str(policy)
    assert "*" not in str(policy)


def test_each_answer_has_a_nonce_of_its_own_for_style_elements(built: Path) -> None:
    first, second = get(built, "/"), get(built, "/nodes")
    nonces = []
    for answer in (first, second):
        nonce = answer.text.partition('content="')[2].partition('"')[0]
        assert policy_of(answer)["style-src"] == f"'self' 'nonce-{nonce}'"
        nonces.append(nonce)
    assert nonces[0] != nonces[1]
    assert min(map(len, nonces)) >= 22, "at least 128 bits"


@pytest.mark.parametrize("path", ["/nodes", "/nodes/a/b%20c", "/jobs/j-1", "/sign-in"])
def test_an_address_that_the_program_shows_a_page_for_is_the_same_page(
    built: Path, path: str
) -> None:
    assert get(built, path).text.startswith('<meta name="style-nonce"')


@pytest.mark.parametrize("path", ["/nosuch", "/assets/", "/assets/index.html", "/nodesx"])
def test_any_other_address_is_a_problem_in_the_usual_form(built: Path, path: str) -> None:
    answer = get(built, path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("accepted", "encoding", "content"),
    [
        ("gzip, deflate, br", "br", b"in brotli"),
        ("gzip", "gzip", PROGRAM),
        ("br;q=0, gzip;q=0.5", "gzip", PROGRAM),
        ("identity", None, PROGRAM),
        ("", None, PROGRAM),
    ],
)
def test_a_file_is_cached_for_ever_in_the_smallest_form_that_the_browser_takes(
    built: Path, accepted: str, encoding: str | None, content: bytes
) -> None:
    answer = get(built, "/assets/index-1a.js", {"Accept-Encoding": accepted})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers.get("content-encoding") == encoding
    if encoding != "br":  # httpx may lack what decodes it
        assert answer.content == content


def test_compressed_forms_and_other_folders_have_no_address_of_their_own(built: Path) -> None:
    (built / "secret.js").write_text("not an asset")
    for name in ("index-1a.js.gz", "index-1a.js.br", "../secret.js", "%2e%2e%2fsecret.js"):
        assert get(built, f"/assets/{name}").status_code == 404


def test_the_licences_of_what_is_in_the_pages_go_with_them(built: Path) -> None:
    answer = get(built, "/licences.txt")
    assert answer.text == "Grüße: MIT"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_source_tree_where_nothing_was_built_says_so_with_the_command(tmp_path: Path) -> None:
    answer = get(tmp_path, "/")
    assert answer.status_code == 503
    assert "make setup" in answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in str(policy_of(answer))
    for path in ("/assets/index-1a.js", "/licences.txt"):
        assert get(tmp_path, path).status_code == 404


def test_a_console_that_an_earlier_version_built_is_to_be_built_again(built: Path) -> None:
    (built / "licences.txt").unlink()
    answer = get(built, "/")
    assert answer.status_code == 503
    assert "make setup" in answer.text
