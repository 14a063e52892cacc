"""``GET /docs``: every route, to read and to try, without the internet.

The page is Swagger UI. Its program and its style come with the package ``fastapi-swagger``, so
the server serves them itself; FastAPI's own page would load them from another host.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import APIRouter
from starlette.responses import Response

from dragoman.errors import NotFound

_OURS = resources.files(__name__)
_SWAGGER_UI = resources.files("fastapi_swagger") / "resources"

_ASSETS: Mapping[str, tuple[Traversable, str]] = {
    "start.js": (_OURS, "text/javascript"),
    "swagger-ui-bundle.js": (_SWAGGER_UI, "text/javascript"),
    "swagger-ui.css": (_SWAGGER_UI, "text/css"),
}
"""What the page loads: where each file is, and its media type."""

# React writes style attributes, and the style sheet has its pictures inside.
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_PAGE_HEADERS = {"Content-Security-Policy": _POLICY}
_ASSET_HEADERS = {"Cache-Control": "max-age=3600"}


def docs_router() -> APIRouter:
    """The page and the files that it names; none of them is in the OpenAPI document."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    def page() -> Response:
        text = (_OURS / "index.html").read_bytes()
        return Response(text, media_type="text/html", headers=_PAGE_HEADERS)

    @router.get("/docs/{name}")
    def asset(name: str) -> Response:
        try:
            folder, media_type = _ASSETS[name]
        except KeyError:
            raise NotFound(f"The page /docs has no file {name!r}.") from None
        content = (folder / name).read_bytes()
        return Response(content, media_type=media_type, headers=_ASSET_HEADERS)

    return router
