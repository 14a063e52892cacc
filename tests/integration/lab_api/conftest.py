"""A lab on each kind of database, asked over HTTP without a server in between."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.servers import TWO_DATABASES, fresh_database

from dragoman.api import PRINCIPAL_HEADER, as_header, create_lab_app, opened_desk
from dragoman.auth import Principal, Role
from dragoman.ids import KeyId, TenantId
from dragoman.lab.plugins import Context
from dragoman.lab.roles import SERVER
from dragoman.observability import Metrics
from dragoman.settings import load_settings

PATIENCE_SECONDS = 60.0
ENDED = ("success", "failed", "terminated")

Row = Mapping[str, Any]


class Asker:
    """A caller of the lab, and the few things that most tests ask."""

    def __init__(self, http: httpx.AsyncClient, tenant: str) -> None:
        self._http = http
        principal = Principal(KeyId("k-1"), Role.EVALUATOR, TenantId(tenant))
        self._headers = {PRINCIPAL_HEADER: as_header(principal)}

    def as_tenant(self, tenant: str) -> Asker:
        return Asker(self._http, tenant)

    async def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = self._headers
        return await self._http.request(method, f"/api/v1{path}", headers=headers, **request)

    async def get(self, path: str, **params: Any) -> httpx.Response:
        given = {name: value for name, value in params.items() if value is not None}
        return await self.ask("GET", path, params=given)

    async def ask_with(self, headers: Mapping[str, str], path: str) -> httpx.Response:
        """Get it with headers of one's own."""
        return await self._http.get(f"/api/v1{path}", headers={**self._headers, **headers})

    async def post(self, path: str, body: object = None) -> httpx.Response:
        return await self.ask("POST", path, json=body)

    async def send_file(
        self, content: bytes, *, path: str = "/datasets", file: str = "d.jsonl", **fields: str
    ) -> httpx.Response:
        files = {"file": (file, io.BytesIO(content))}
        return await self.ask("POST", path, data=fields, files=files)

    async def import_rows(self, rows: Sequence[Row], name: str = "cases") -> str:
        """The version that the rows became."""
        made = await self.send_file(jsonl(rows), name=name)
        assert made.status_code == 201, made.text
        return str(made.json()["version_id"])

    async def submit(self, version_id: str, **order: Any) -> str:
        """Start an experiment that scores what is in the dataset; its id."""
        made = await self.post("/experiments/submit", order_of(version_id, **order))
        assert made.status_code == 201, made.text
        return str(made.json()["experiment_id"])

    async def until_ended(self, experiment_id: str) -> dict[str, Any]:
        return await self.until(experiment_id, lambda found: found["status"] in ENDED)

    async def until(
        self, experiment_id: str, reached: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """Look at the experiment until it has come so far."""
        pause_seconds = 0.02
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found: dict[str, Any] = (await self.get(f"/experiments/{experiment_id}")).json()
                if reached(found):
                    return found
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(1.2 * pause_seconds, 0.1)


def jsonl(rows: Sequence[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def order_of(version_id: str, **order: Any) -> dict[str, Any]:
    """An experiment that scores the column `said` by the column `meant`."""
    return {
        "name": "trial run",
        "dataset_version_id": version_id,
        "target": {"kind": "recorded", "output": "said"},
        "evaluators": [{"kind": "exact", "reference": "meant"}],
        **order,
    }


OpenLab = Callable[[], AbstractAsyncContextManager[Asker]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module that asks what others ask on both databases names fewer in DATABASE_KINDS."""
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "lab_url" in metafunc.fixturenames and "lab_url" not in chosen:
        kinds = getattr(metafunc.module, "DATABASE_KINDS", TWO_DATABASES)
        metafunc.parametrize("lab_url", kinds, indirect=True)


@pytest.fixture
def lab_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_database(request.param, request, tmp_path)


@pytest.fixture
def open_lab(lab_url: str, tmp_path: Path) -> OpenLab:
    """Opens a lab that may call this test's functions, and asks it for tenant acme."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Asker]:
        flags = {"store": {"database_url": lab_url}, "server": {"data_dir": tmp_path}}
        settings = load_settings(None, flags).settings
        metrics = Metrics()
        context = Context(python_allow=("tests.integration.lab_api.*",), http_allow=())
        async with (
            opened_desk(settings, context, metrics, SERVER) as desk,
            httpx.AsyncClient(
                transport=httpx.ASGITransport(create_lab_app(desk, metrics)),
                base_url="http://lab",
                timeout=PATIENCE_SECONDS,
            ) as http,
        ):
            yield Asker(http, "acme")

    return opened
