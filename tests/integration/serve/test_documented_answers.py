"""No request, however odd, gets an answer that the OpenAPI document does not promise."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import given, settings
from schemathesis.core.result import Ok
from tests.integration.serve.server_process import ServerProcess

EXAMPLES = 20


def test_no_request_gets_an_answer_that_is_not_documented(keys_server: ServerProcess) -> None:
    schema = schemathesis.openapi.from_url(f"{keys_server.url}/openapi.json")

    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        try_operation(found.ok())


def try_operation(operation: schemathesis.APIOperation[Any, Any, Any, Any]) -> None:
    @settings(max_examples=EXAMPLES)
    @given(case=operation.as_strategy())
    def answered_as_documented(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate()

    answered_as_documented()
