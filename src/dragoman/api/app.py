"""The web application: routes, sockets and what every request passes through."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.api.audit import audit_router
from dragoman.api.audit_trail import AuditTrail
from dragoman.api.console import console_router, read_built
from dragoman.api.headers import SecurityHeaders
from dragoman.api.health import health_router
from dragoman.api.hosts import HostCheck, served_hosts
from dragoman.api.lifecycle import Lifecycle
from dragoman.api.middleware import BodyLimit, CsrfCheck, OriginCheck, Shield
from dragoman.api.open_requests import OpenRequestLimit, PreflightLimit
from dragoman.api.problems import Problem, problem_response, status_response, validation_response
from dragoman.api.services import Services
from dragoman.api.settings_view import settings_router
from dragoman.api.sign_in import SIGN_IN_PATH, sign_in_router
from dragoman.auth import AddressLimit
from dragoman.errors import DragomanError
from dragoman.version import __version__

_DESCRIPTION = (
    "One scheduler for live speech translation and for the experiments that improve it. "
    "Every problem is answered as `Problem`."
)

_TOO_MANY_OPEN = (
    "Too many requests without a key came from this address (limits.open_requests_per_minute); "
    "wait a little, or send a key."
)


def create_app(
    services: Services,
    *,
    routers: Sequence[APIRouter] = (),
    sockets: Mapping[str, ASGIApp] | None = None,
    larger_bodies: Mapping[str, int] | None = None,
) -> FastAPI:
    """The application over these services, with the routers and, by path, the sockets given."""
    app = FastAPI(
        title="Dragoman",
        description=_DESCRIPTION,
        version=__version__,
        redirect_slashes=False,
        docs_url=None,  # a page of the console: the framework's own loads other hosts' scripts
        redoc_url=None,
        responses={"default": {"model": Problem, "description": "The request was refused"}},
        exception_handlers=dict(ANSWERS),
    )
    # Where `require` finds it.
    app.state.authenticator = services.authenticator
    pages = console_router(read_built())
    signing_in = sign_in_router(services)
    own = (health_router(services), pages, signing_in, settings_router(services))
    for router in (*own, audit_router(services.audit.store), *routers):
        app.include_router(router)
    for path, socket in (sockets or {}).items():
        app.router.routes.append(WebSocketRoute(path, _OnceBegun(socket, services.lifecycle)))
    _add_middleware(app, services, larger_bodies or {})
    return app


def _add_middleware(app: FastAPI, services: Services, larger_bodies: Mapping[str, int]) -> None:
    """What requests pass through; the last one added is the first one passed."""
    server = services.settings.server
    app.add_middleware(
        BodyLimit,
        max_bytes=services.settings.limits.max_frame_bytes,
        larger=larger_bodies,
        budget=services.budget,
    )
    if services.settings.auth.mode == "keys":
        app.add_middleware(CsrfCheck, exempt=[SIGN_IN_PATH])
    app.add_middleware(OriginCheck, allowed_origins=server.allowed_origins)
    app.add_middleware(HostCheck, serves=served_hosts(services.settings))
    app.add_middleware(
        AuditTrail,
        log=services.audit,
        clock=services.clock,
        random=services.randomness.stream("audit"),
        instance_id=services.instance_id,
    )
    limit = AddressLimit(
        services.clock, services.settings.limits.open_requests_per_minute, _TOO_MANY_OPEN
    )
    asks_for_keys = services.settings.auth.mode == "keys"
    app.add_middleware(
        OpenRequestLimit,
        limit=limit,
        authenticator=services.authenticator,
        asks_for_keys=asks_for_keys,
    )
    app.add_middleware(Shield)
    if server.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=server.allowed_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["Retry-After"],
        )
        app.add_middleware(PreflightLimit, limit=limit, asks_for_keys=asks_for_keys)
    app.add_middleware(SecurityHeaders)


class _OnceBegun:
    """A socket whose callers wait while the server is still starting."""

    def __init__(self, socket: ASGIApp, lifecycle: Lifecycle) -> None:
        self._socket = socket
        self._lifecycle = lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._lifecycle.begun()
        await self._socket(scope, receive, send)


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, DragomanError)
    return problem_response(error)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return validation_response(error)


async def _on_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return status_response(request, error)


ANSWERS: Mapping[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    DragomanError: _on_refusal,
    RequestValidationError: _on_invalid_request,
    HTTPException: _on_status,
}
"""How what routes raise is answered."""
