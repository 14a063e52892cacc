"""Keys on HTTP routes, and nowhere in the logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from tests.integration.auth.conftest import OpenKeys

from dragoman.api.permissions import require
from dragoman.auth import (
    ApiKey,
    Authenticator,
    KeyAuthenticator,
    OpenAuthenticator,
    Permission,
    Principal,
    Role,
    effective_tenant,
)
from dragoman.clock import ManualClock
from dragoman.errors import DragomanError


def application(authenticator: Authenticator) -> FastAPI:
    app = FastAPI()
    app.state.authenticator = authenticator

    @app.exception_handler(DragomanError)
    async def problem(request: Request, error: DragomanError) -> JSONResponse:
        return JSONResponse({"code": error.code, "message": error.message}, error.status)

    @app.get("/jobs")
    async def jobs(
        principal: Annotated[Principal, Depends(require(Permission.JOBS))],
        tenant_id: str | None = None,
    ) -> dict[str, str]:
        return {"tenant": effective_tenant(principal, tenant_id)}

    @app.get("/nodes")
    async def nodes(
        principal: Annotated[Principal, Depends(require(Permission.NODES))],
    ) -> dict[str, str]:
        return {"role": principal.role}

    return app


@asynccontextmanager
async def client_of(authenticator: Authenticator) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application(authenticator))
    async with httpx.AsyncClient(transport=transport, base_url="http://dragoman") as client:
        yield client


def bearer(key: ApiKey) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.reveal()}"}


def test_a_route_answers_by_role_and_tenant(open_keys: OpenKeys, clock: ManualClock) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = KeyAuthenticator(keys, clock, failures_per_minute=2)
            _, client_key = await keys.create(Role.CLIENT, "acme")
            _, operator_key = await keys.create(Role.OPERATOR, "acme")
            async with client_of(authenticator) as client:

                async def status(path: str, key: ApiKey | None = None) -> int:
                    headers = bearer(key) if key else {}
                    return (await client.get(path, headers=headers)).status_code

                assert await status("/jobs") == 401
                assert await status("/jobs", client_key) == 200
                assert await status("/jobs?tenant_id=acme", client_key) == 200
                assert await status("/jobs?tenant_id=globex", client_key) == 403
                assert await status(f"/jobs?token={client_key.reveal()}") == 200
                assert await status("/nodes", client_key) == 403
                assert await status("/nodes", operator_key) == 200
                assert await status("/jobs", operator_key) == 200
                wrong = [await status("/jobs", ApiKey.generate()) for _ in range(4)]
                assert wrong == [401, 401, 429, 429]

    asyncio.run(scenario())


def test_in_open_mode_routes_need_no_key() -> None:
    async def scenario() -> None:
        async with client_of(OpenAuthenticator()) as client:
            assert (await client.get("/nodes")).json() == {"role": "operator"}
            answer = await client.get("/jobs?tenant_id=globex", headers=bearer(ApiKey("x")))
            assert answer.json() == {"tenant": "globex"}

    asyncio.run(scenario())


def test_the_openapi_document_tells_that_a_key_is_needed() -> None:
    document = application(OpenAuthenticator()).openapi()
    assert document["paths"]["/jobs"]["get"]["security"] == [{"HTTPBearer": []}]


def test_no_key_appears_in_any_log_at_any_level(
    open_keys: OpenKeys, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything that a key goes through, right and wrong, with every logger wide open."""
    secrets: list[ApiKey] = []

    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = KeyAuthenticator(keys, clock, failures_per_minute=3)
            record, good = await keys.create(Role.CLIENT, "acme")
            secrets.extend([good, *(ApiKey.generate() for _ in range(5))])
            async with authenticator, client_of(authenticator) as client:
                # httpx logs the URLs that it asks for: the client's business, not the server's.
                answers = [await client.get("/jobs", headers=bearer(key)) for key in secrets]
                answers.append(await client.get("/nodes", headers=bearer(good)))
                principal = await authenticator.authenticate(good, "10.0.0.1")
                authenticator.watch(principal, lambda: None)
                await keys.revoke(record.key_id)
                await authenticator.refresh()
                answers.append(await client.get("/jobs", headers=bearer(good)))
            statuses = {answer.status_code for answer in answers}
            assert statuses == {200, 401, 403, 429}
            logging.getLogger("test").debug("%r %s %s", secrets, good, vars(authenticator))
            for answer in answers:
                assert not any(key.reveal() in answer.text for key in secrets)

    with caplog.at_level(1):
        for name in ("sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool", "asyncio", "dragoman"):
            caplog.set_level(1, logger=name)
        asyncio.run(scenario())
    assert "key_revoked" in caplog.text
    assert "INSERT INTO api_key" in caplog.text, "the loggers were not wide open"
    written = caplog.text + "".join(repr(record.__dict__) for record in caplog.records)
    assert not any(key.reveal() in written for key in secrets)
