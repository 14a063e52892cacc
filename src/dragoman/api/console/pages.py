"""The console's pages over HTTP: one document for every address, and the files that it loads."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from dragoman.api.console.built_files import BuiltConsole
from dragoman.errors import NotFound

PAGES = (
    "nodes",
    "pairs",
    "sessions",
    "jobs",
    "talk",
    "cluster",
    "alerts",
    "settings",
    "audit",
    "lab",
    "docs",
    "sign-in",
)
"""The first part of the addresses that the program in the browser shows a page for."""

_NONCE_PLACE = "__STYLE_NONCE__"
"""Where the built page has the nonce of its style elements."""

_TEXT = "text/plain"
_NEVER_CACHED = "no-store"
_CACHED_FOR_EVER = "public, max-age=31536000, immutable"

_NOT_BUILT = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Dragoman</title></head>
<body>
<h1>Dragoman is running</h1>
<p>This source tree has no console yet: its pages are built from <code>web/</code>. Run</p>
<pre>make setup</pre>
<p>and restart the server. The API needs no pages: see
<a href="/openapi.json">/openapi.json</a>.</p>
</body>
</html>
"""


def console_router(console: BuiltConsole | None) -> APIRouter:
    """The routes of the pages, which the OpenAPI document leaves out. None: nothing was built."""
    router = APIRouter(include_in_schema=False)

    def page() -> Response:
        if console is None:
            return _html(_NOT_BUILT, _policy(None), 503)
        nonce = secrets.token_urlsafe(18)
        return _html(console.page.replace(_NONCE_PLACE, nonce), _policy(nonce), 200)

    router.add_api_route("/", page)
    for name in PAGES:
        router.add_api_route(f"/{name}", page)
        router.add_api_route(f"/{name}/{{rest:path}}", page)

    @router.get("/licences.txt")
    def licences() -> Response:
        if console is None:
            raise NotFound("The console was not built; run make setup and restart the server.")
        return Response(
            console.licences, headers={"Cache-Control": _NEVER_CACHED}, media_type=_TEXT
        )

    @router.get("/assets/{name}")
    def asset(name: str, accept_encoding: Annotated[str | None, Header()] = None) -> Response:
        file = console.files.get(name) if console is not None else None
        if file is None:
            raise NotFound(f"The console has no file {name!r}; reload the page.")
        encoding, content = file.encoded_for(accept_encoding)
        headers = {"Cache-Control": _CACHED_FOR_EVER, "Vary": "Accept-Encoding"}
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        return Response(content, media_type=file.media_type, headers=headers)

    return router


def _html(text: str, policy: str, status: int) -> Response:
    headers = {"Cache-Control": _NEVER_CACHED, "Content-Security-Policy": policy}
    return Response(text, status_code=status, media_type="text/html", headers=headers)


def _policy(style_nonce: str | None) -> str:
    """What the page may load: files of this server, and the style elements that know the nonce."""
    nonce = f" 'nonce-{style_nonce}'" if style_nonce is not None else ""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self'{nonce}",
            "img-src 'self'",
            "font-src 'self'",
            "connect-src 'self'",
            "media-src 'self' blob:",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
