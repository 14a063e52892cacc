"""Signing in through an OpenID provider, with a browser."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse

from dragoman.api.audit_trail import note
from dragoman.api.permissions import note_principal
from dragoman.api.sign_in_cookie import set_sign_in
from dragoman.auth import (
    OIDC_FLOW_SECONDS,
    AddressLimit,
    Authenticator,
    OidcClient,
    own_path,
    remote_address,
)
from dragoman.errors import DragomanError, RateLimited
from dragoman.observability import get_logger

BEGIN_PATH = "/api/v1/sign-in/oidc"
CALLBACK_PATH = f"{BEGIN_PATH}/callback"

_FLOW_COOKIE = "dragoman_oidc"
_MAX_CHARACTERS = 4096

_log = get_logger(__name__)

Answer = Annotated[str, Query(max_length=_MAX_CHARACTERS)]


def oidc_router(
    client: OidcClient, authenticator: Authenticator, sign_ins: AddressLimit
) -> APIRouter:
    """The two addresses that a browser goes through; the OpenAPI document leaves them out."""
    router = APIRouter(include_in_schema=False)

    @router.get(BEGIN_PATH)
    async def begin(request: Request, next_: Annotated[str, Query(alias="next")] = "/") -> object:
        sign_ins.record(remote_address(request.scope))
        url, carried = await client.begin(_callback_url(request), own_path(next_))
        answer = RedirectResponse(url, 303)
        answer.set_cookie(
            _FLOW_COOKIE,
            carried,
            max_age=OIDC_FLOW_SECONDS,
            path=BEGIN_PATH,
            secure=request.url.scheme == "https",
            httponly=True,
            # Lax and not strict: the provider's page sends the browser back.
            samesite="lax",
        )
        return answer

    @router.get(CALLBACK_PATH)
    async def finish(request: Request, state: Answer = "", code: Answer = "") -> object:
        sign_ins.record(remote_address(request.scope))
        try:
            carried = request.cookies.get(_FLOW_COOKIE)
            person, next_path = await client.finish(carried, state, code, _callback_url(request))
            found = await authenticator.sign_in_person(person)
        except RateLimited:
            raise
        except DragomanError as error:
            # A person is at the browser: they get a page, and the log has the reason.
            _log.info("oidc_refused", code=error.code, reason=error.message)
            answer = RedirectResponse(f"/sign-in?refused={quote(error.code)}", 303)
        else:
            note_principal(request, found.principal)
            note(request, person=person.name, provider=client.name)
            answer = RedirectResponse(next_path, 303)
            set_sign_in(answer, request, found)
        answer.delete_cookie(_FLOW_COOKIE, path=BEGIN_PATH)
        return answer

    return router


def _callback_url(request: Request) -> str:
    """Where the provider sends the browser back: it accepts only addresses that it knows."""
    return f"{request.url.scheme}://{request.url.netloc}{CALLBACK_PATH}"
