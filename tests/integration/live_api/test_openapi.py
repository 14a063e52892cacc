"""The OpenAPI document tells the truth about the live plane."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance
from tests.integration.serve.server_process import ServerProcess

ROUTES = {
    "/api/v1/attempts": {"get"},
    "/api/v1/jobs": {"get", "post"},
    "/api/v1/jobs/{job_id}": {"get", "delete"},
    "/api/v1/jobs/{job_id}/explain": {"get"},
    "/api/v1/nodes": {"get"},
    "/api/v1/nodes/{node_id}": {"get"},
    "/api/v1/nodes/{node_id}/drain": {"post"},
    "/api/v1/nodes/{node_id}/resume": {"post"},
    "/api/v1/nodes/{node_id}/shutdown": {"post"},
    "/api/v1/pools": {"get"},
    "/api/v1/sessions": {"get"},
    "/api/v1/sessions/{session_id}": {"get", "delete"},
    "/api/v1/catalog": {"get"},
    "/api/v1/cluster": {"get"},
    "/api/v1/cluster/dead-letters": {"get"},
    "/api/v1/cluster/dead-letters/{letter_id}": {"delete"},
    "/api/v1/cluster/dead-letters/{letter_id}/replay": {"post"},
}


@pytest.fixture(scope="module")
def document(server: ServerProcess) -> dict[str, Any]:
    found: dict[str, Any] = server.get("/openapi.json").json()
    return found


def test_every_route_is_documented(document: dict[str, Any]) -> None:
    documented = {path: set(methods) for path, methods in document["paths"].items()}

    assert ROUTES.items() <= documented.items()


def test_the_body_of_a_job_is_documented_field_by_field(document: dict[str, Any]) -> None:
    posted = document["paths"]["/api/v1/jobs"]["post"]
    schema = posted["requestBody"]["content"]["application/json"]["schema"]

    assert schema["required"] == ["src_lang", "tgt_lang"]
    assert {"text", "audio", "class", "wait_ms", "request_id"} <= schema["properties"].keys()
    assert {"200", "201", "202", "default"} <= posted["responses"].keys()


def test_answers_have_names(document: dict[str, Any]) -> None:
    assert {"Job", "JobPage", "Explain", "Node", "NodePage", "PoolPage"} <= document["components"][
        "schemas"
    ].keys()


def test_every_route_answers_as_documented_whatever_it_is_asked(server: ServerProcess) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        try_operation(found.ok())


def try_operation(operation: schemathesis.APIOperation[Any, Any, Any, Any]) -> None:
    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(max_examples=15, derandomize=True)
    def answered_as_documented(case: schemathesis.Case[Any]) -> None:
        # In open mode every key is welcome, and fields that do not go together are no schema's
        # business.
        case.call_and_validate(excluded_checks=[ignored_auth, positive_data_acceptance])

    answered_as_documented()
