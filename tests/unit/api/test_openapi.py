"""The OpenAPI document tells the truth about every route."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.api.application import asked, settings_in


def document(tmp_path: Path) -> dict[str, Any]:
    async def scenario() -> dict[str, Any]:
        async with asked(settings_in(tmp_path)) as (client, _):
            found: dict[str, Any] = (await client.get("/openapi.json")).json()
            return found

    return asyncio.run(scenario())


def test_every_route_documents_the_form_of_its_problems(tmp_path: Path) -> None:
    found = document(tmp_path)

    assert found["paths"].keys() == {
        *("/healthz", "/readyz", "/metrics"),
        *("/api/v1/me", "/api/v1/sign-in", "/api/v1/sign-out"),
        *("/api/v1/sign-in/ways", "/api/v1/audit", "/api/v1/settings"),
    }
    for path in found["paths"].values():
        for operation in path.values():
            assert "Problem" in str(operation["responses"]["default"])
    assert found["components"]["schemas"]["ProblemBody"]["required"] == [
        "code",
        "message",
        "details",
    ]


def test_routes_that_need_a_key_say_so(tmp_path: Path) -> None:
    found = document(tmp_path)

    (scheme,) = found["components"]["securitySchemes"].values()
    assert scheme["type"] == "http"
    assert scheme["scheme"] == "bearer"
    assert "security" in found["paths"]["/metrics"]["get"]
    assert "security" not in found["paths"]["/healthz"]["get"]


def test_every_reference_of_the_document_leads_somewhere(tmp_path: Path) -> None:
    found = document(tmp_path)

    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for inner in part.values():
                yield from references(inner)
        elif isinstance(part, list):
            for inner in part:
                yield from references(inner)

    def is_there(reference: str) -> bool:
        part: Any = found
        for name in reference.removeprefix("#/").split("/"):
            if name not in part:
                return False
            part = part[name]
        return True

    assert [reference for reference in references(found) if not is_there(reference)] == []
