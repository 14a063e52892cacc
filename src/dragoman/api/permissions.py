"""Keys on HTTP routes: a FastAPI dependency for each permission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import Scope

from dragoman.auth import (
    Access,
    Authenticator,
    Permission,
    Principal,
    authorize,
    presented_key,
    remote_address,
)

# Only for the OpenAPI document: the key itself is read in one place, for sockets too.
_DOCUMENTED = HTTPBearer(
    auto_error=False, description="An API key; `dragoman keys create` creates one."
)


_PRINCIPAL = "dragoman.principal"
"""Where an ASGI scope has who is asking, once a key was checked."""

_READING_METHODS = frozenset({"GET", "HEAD"})


async def authenticated(request: Request, authenticator: Authenticator) -> Principal:
    """Who is asking; from now on the request's scope tells it, too."""
    principal = await authenticator.authenticate(
        presented_key(request.scope), remote_address(request.scope)
    )
    note_principal(request, principal)
    return principal


def note_principal(request: Request, principal: Principal) -> None:
    """Have the request's scope tell who is asking."""
    request.scope[_PRINCIPAL] = principal


def known_principal(scope: Scope) -> Principal | None:
    """Who is asking, if a key was checked for this request."""
    found: Principal | None = scope.get(_PRINCIPAL)
    return found


def access_of(request: Request) -> Access:
    """What a request wants: to look, or to change something."""
    return Access.READ if request.method in _READING_METHODS else Access.ACT


def require(permission: Permission) -> Callable[..., Awaitable[Principal]]:
    """A dependency that yields the principal, or refuses a request that may not use the thing.

    The application keeps its authenticator at ``app.state.authenticator``.
    """

    async def principal_of(
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Security(_DOCUMENTED)],
    ) -> Principal:
        authenticator: Authenticator = request.app.state.authenticator
        principal = await authenticated(request, authenticator)
        authorize(principal, permission, access_of(request))
        return principal

    return principal_of
