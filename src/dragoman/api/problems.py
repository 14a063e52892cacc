"""Every refusal over HTTP has one form: ``{"error": {"code", "message", "details"}}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dragoman.errors import (
    DragomanError,
    Forbidden,
    InternalError,
    InvalidMessage,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    Unauthorized,
)

UNEXPECTED = InternalError("Something failed inside the server; its log says what.")
"""The message of an unexpected failure: it tells callers nothing that could leak."""


class ProblemBody(BaseModel):
    """What went wrong, to which thing, and what to do."""

    code: str = Field(description="The kind of problem; one of the codes of the protocol.")
    message: str = Field(description="A sentence for people.")
    details: dict[str, Any] = Field(
        description="Facts for programs, such as reasons and retry_after_ms for a refusal."
    )


class Problem(BaseModel):
    """The answer to a request that could not be carried out."""

    error: ProblemBody


_CODES: Mapping[int, type[DragomanError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    413: PayloadTooLarge,
    429: RateLimited,
}
"""Which error stands for a status that the web framework answers by itself."""


def problem_response(error: DragomanError) -> Response:
    """The answer that goes with an error."""
    return _response(error, error.status)


def status_response(request: Request, raised: HTTPException) -> Response:
    """The answer to a request that the web framework refused, such as an unknown path."""
    path, method = request.url.path, request.method
    status = raised.status_code
    if status == 404:
        return _response(
            NotFound(f"There is nothing at {path}; /openapi.json lists every route."), status
        )
    if status == 405:
        error = InvalidMessage(f"{path} does not support {method}.")
        return _response(error, status, raised.headers)
    if status == 400:
        # A body that is no text at all; the protocol has one status for what cannot be read.
        return problem_response(InvalidMessage("The body of the request cannot be read."))
    fallback = InvalidMessage if status < 500 else InternalError
    return _response(_CODES.get(status, fallback)(raised.detail), status, raised.headers)


def validation_response(raised: RequestValidationError) -> Response:
    """The answer to a request with wrong fields: each is named, none is quoted."""
    fields = [
        {"path": ".".join(map(str, found["loc"])), "reason": found["msg"]}
        for found in raised.errors()
    ]
    sentence = "; ".join(f"{field['path']}: {field['reason']}" for field in fields)
    return problem_response(
        InvalidMessage(f"The request is not valid: {sentence}.", details={"fields": fields})
    )


def _response(
    error: DragomanError, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    details = dict(error.details)
    answer_headers = dict(headers or {})
    if error.retry_after_ms is not None:
        details["retry_after_ms"] = error.retry_after_ms
        answer_headers["Retry-After"] = str(-(-error.retry_after_ms // 1000))
    if status == 401:
        answer_headers["WWW-Authenticate"] = "Bearer"
    body = {"error": {"code": error.code, "message": error.message, "details": details}}
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        headers=answer_headers,
        media_type="application/json",
    )
