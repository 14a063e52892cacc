"""Signing in with a browser: a key buys a cookie, so that no key lies in the browser's storage."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from dragoman.api.oidc import oidc_router
from dragoman.api.permissions import authenticated, note_principal
from dragoman.api.services import Services
from dragoman.api.sign_in_cookie import set_sign_in
from dragoman.auth import (
    SIGN_IN_COOKIE,
    Access,
    AddressLimit,
    ApiKey,
    OidcClient,
    Permission,
    Principal,
    Role,
    csrf_token,
    may,
    remote_address,
    signed_in_key,
)

PREFIX = "/api/v1"
SIGN_IN_PATH = f"{PREFIX}/sign-in"

_MAX_KEY_CHARACTERS = 256

_TOO_MANY_SIGN_INS = (
    "Too many sign-ins came from this address (limits.sign_ins_per_minute); wait a little."
)

_OF_THE_LAB = frozenset({Permission.DATASETS, Permission.EXPERIMENTS})
"""What a server whose lab is off does not have."""


class SignInOrder(BaseModel):
    """The key that a person signs in with."""

    key: Annotated[str, Field(max_length=_MAX_KEY_CHARACTERS)]


class Me(BaseModel):
    """Who is asking, and what they may see and do."""

    auth: Literal["open", "keys"]
    role: Role
    tenant_id: str
    key_id: str | None = Field(
        description="The id of the caller's key, which their annotations carry; null without one."
    )
    sees: list[str] = Field(description="What this caller may look at, such as `nodes`.")
    acts: list[str] = Field(description="What this caller may also use and change.")
    csrf_token: str | None = Field(
        description="What a page that signed in sends in `X-CSRF-Token` with every change."
    )


class SignInWays(BaseModel):
    """How a person can sign in."""

    key: bool = Field(description="Whether a key of this server will do.")
    oidc: str | None = Field(description="The name of the provider that can be used; null: none.")


def sign_in_router(services: Services) -> APIRouter:
    """The routes that begin and end a person's stay, and tell who they are."""
    router = APIRouter(prefix=PREFIX, tags=["sign-in"])
    authenticator = services.authenticator
    mode = services.settings.auth.mode
    sign_ins = AddressLimit(
        services.clock, services.settings.limits.sign_ins_per_minute, _TOO_MANY_SIGN_INS
    )
    absent = frozenset() if services.settings.lab.enabled else _OF_THE_LAB

    def told(principal: Principal, key: ApiKey | None) -> Me:
        return _me(mode, principal, key, absent)

    oidc = services.settings.auth.oidc
    if oidc.issuer:
        client = OidcClient(oidc, services.clock)
        router_of_provider = oidc_router(client, authenticator, sign_ins)

    @router.get("/sign-in/ways", summary="How a person can sign in")
    async def ways() -> SignInWays:
        return SignInWays(key=mode == "keys", oidc=oidc.name if oidc.issuer else None)

    @router.get("/me", summary="Who is asking, and what they may see and do")
    async def me(request: Request, response: Response) -> Me:
        response.headers["Cache-Control"] = "no-store"
        principal = await authenticated(request, authenticator)
        return told(principal, signed_in_key(request.scope))

    @router.post("/sign-in", summary="Exchange a key for a cookie of this server")
    async def sign_in(order: SignInOrder, request: Request, response: Response) -> Me:
        address = remote_address(request.scope)
        sign_ins.record(address)
        found = await authenticator.sign_in(ApiKey(order.key.strip()), address)
        note_principal(request, found.principal)
        set_sign_in(response, request, found)
        return told(found.principal, found.token)

    @router.post("/sign-out", status_code=204, summary="End a stay, in this browser and its tabs")
    async def sign_out(request: Request) -> Response:
        key = signed_in_key(request.scope)
        if key is not None:
            principal = await authenticator.authenticate(key, remote_address(request.scope))
            note_principal(request, principal)
            await authenticator.sign_out(principal)
        response = Response(status_code=204)
        response.delete_cookie(SIGN_IN_COOKIE, path="/", httponly=True, samesite="strict")
        return response

    if oidc.issuer:
        whole = APIRouter()
        whole.include_router(router_of_provider)
        whole.include_router(router)
        return whole
    return router


def _me(
    mode: Literal["open", "keys"],
    principal: Principal,
    key: ApiKey | None,
    absent: frozenset[Permission],
) -> Me:
    def with_access(access: Access) -> list[str]:
        present = (one for one in Permission if one not in absent)
        permitted = (one for one in present if may(principal.role, one, access))
        return [permission.name.lower() for permission in permitted]

    return Me(
        auth=mode,
        role=principal.role,
        tenant_id=principal.tenant,
        key_id=principal.key_id,
        sees=with_access(Access.READ),
        acts=with_access(Access.ACT),
        csrf_token=csrf_token(key) if key is not None and mode == "keys" else None,
    )
