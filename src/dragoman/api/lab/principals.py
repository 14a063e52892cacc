"""Who is asking, as the live process tells the lab's process over their own socket.

Only the live process can reach that socket, so the lab trusts the header.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated

import msgspec
from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from dragoman.api.permissions import access_of
from dragoman.auth import Access, Permission, Principal, authorize
from dragoman.errors import Unauthorized

PRINCIPAL_HEADER = "x-dragoman-principal"

# Only for the OpenAPI document: the key itself is read by the live process.
_DOCUMENTED = HTTPBearer(
    auto_error=False, description="An API key; `dragoman keys create` creates one."
)


def as_header(principal: Principal) -> str:
    """The principal as the header carries it."""
    return urlsafe_b64encode(msgspec.json.encode(principal)).decode()


def from_headers(headers: Iterable[tuple[bytes, bytes]]) -> Principal:
    """The principal that an ASGI scope's headers tell of."""
    wanted = PRINCIPAL_HEADER.encode()
    for name, value in headers:
        if name == wanted:
            return msgspec.json.decode(urlsafe_b64decode(value), type=Principal)
    raise Unauthorized("The lab answers only its server, which says who is asking.")


def asked_by(
    permission: Permission, access: Access | None = None
) -> Callable[..., Awaitable[Principal]]:
    """A dependency that yields the principal of a route that needs the permission.

    access is named where a question is asked with POST; otherwise the method tells.
    """

    async def principal_of(
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Security(_DOCUMENTED)],
    ) -> Principal:
        principal = from_headers(request.scope["headers"])
        authorize(principal, permission, access or access_of(request))
        return principal

    return principal_of
