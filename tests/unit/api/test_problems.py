"""Whatever goes wrong, the answer has one form and says what to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Body, Query
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.api.application import asked, settings_in

from dragoman.api import problem_response
from dragoman.errors import BY_CODE, DragomanError, NoCapacity

router = APIRouter()


@router.get("/refuse/{code}")
async def refuse(code: str) -> None:
    raise BY_CODE[code]("it cannot be", details={"reasons": {"no_free_slot": 3}})


@router.get("/surprise")
async def surprise() -> None:
    raise ValueError("the secret is sesame")


@router.get("/count")
async def count(number: Annotated[int, Query(ge=1)]) -> int:
    return number


@router.post("/echo")
async def echo(text: Annotated[str, Body(embed=True)]) -> str:
    return text


def ask(tmp_path: Path, method: str, path: str, **options: Any) -> httpx.Response:
    async def scenario() -> httpx.Response:
        limits = {"max_frame_bytes": 1000}
        server = {"allowed_origins": ["https://talk.example.org"]}
        scheduler = {"web_task_segmentation": {"max_bytes": 500}}
        settings = settings_in(tmp_path, limits=limits, server=server, scheduler=scheduler)
        async with asked(settings, [router]) as (client, _):
            return await client.request(method, path, **options)

    return asyncio.run(scenario())


def problem(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"code", "message", "details"}
    found: dict[str, Any] = body["error"]
    return found


@pytest.mark.parametrize("error", list(BY_CODE.values()), ids=list(BY_CODE))
def test_each_error_is_answered_with_its_code_and_status(error: type[DragomanError]) -> None:
    response = problem_response(error("it cannot be"))

    assert response.status_code == error.status
    assert bytes(response.body) == (
        b'{"error":{"code":"%s","message":"it cannot be","details":{}}}' % error.code.encode()
    )


@given(st.integers(min_value=0, max_value=10**9))
def test_retry_after_is_never_sooner_than_retry_after_ms(retry_after_ms: int) -> None:
    response = problem_response(NoCapacity("full", retry_after_ms=retry_after_ms))

    retry_after = int(response.headers["Retry-After"])
    assert 0 <= retry_after * 1000 - retry_after_ms < 1000
    assert b'"retry_after_ms":%d' % retry_after_ms in bytes(response.body)


def test_an_error_without_a_time_has_no_retry_after() -> None:
    assert "Retry-After" not in problem_response(NoCapacity("full")).headers


def test_a_refusal_in_a_route_keeps_its_details(tmp_path: Path) -> None:
    response = ask(tmp_path, "GET", "/refuse/NO_CAPACITY")

    assert response.status_code == 429
    assert problem(response)["details"] == {"reasons": {"no_free_slot": 3}}


def test_a_missing_key_is_answered_with_what_to_send(tmp_path: Path) -> None:
    response = ask(tmp_path, "GET", "/refuse/UNAUTHORIZED")

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_an_unknown_path_is_not_found(tmp_path: Path) -> None:
    response = ask(tmp_path, "GET", "/nowhere")

    assert response.status_code == 404
    assert problem(response)["code"] == "NOT_FOUND"
    assert "/nowhere" in problem(response)["message"]


def test_a_wrong_method_is_told_the_right_ones(tmp_path: Path) -> None:
    response = ask(tmp_path, "DELETE", "/healthz")

    assert response.status_code == 405
    assert problem(response)["code"] == "INVALID_MESSAGE"
    assert response.headers["Allow"] == "GET"


def test_a_wrong_field_is_named_and_never_quoted(tmp_path: Path) -> None:
    response = ask(tmp_path, "GET", "/count?number=dgm_sesame")

    assert response.status_code == 422
    found = problem(response)
    assert found["code"] == "INVALID_MESSAGE"
    assert [field["path"] for field in found["details"]["fields"]] == ["query.number"]
    assert "sesame" not in response.text


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"", b'{"text": 1}', b"[]"])
def test_a_body_that_cannot_be_read_is_invalid(tmp_path: Path, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}

    response = ask(tmp_path, "POST", "/echo", content=content, headers=headers)

    assert response.status_code == 422
    assert problem(response)["code"] == "INVALID_MESSAGE"


def test_a_surprise_is_logged_once_and_told_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        response = ask(tmp_path, "GET", "/surprise")

    assert response.status_code == 500
    assert problem(response)["code"] == "INTERNAL_ERROR"
    assert "sesame" not in response.text
    assert [record.getMessage() for record in caplog.records] == ["request_failed"]
    assert "sesame" in caplog.text


def test_a_body_that_is_announced_too_large_is_refused(tmp_path: Path) -> None:
    response = ask(tmp_path, "POST", "/echo", json={"text": "x" * 1000})

    assert response.status_code == 413
    assert problem(response)["code"] == "PAYLOAD_TOO_LARGE"
    assert problem(response)["details"] == {"max_bytes": 1000}


def test_a_body_that_turns_out_too_large_is_refused(tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    response = ask(tmp_path, "POST", "/echo", content=chunks())

    assert response.status_code == 413
    assert problem(response)["code"] == "PAYLOAD_TOO_LARGE"


def test_a_body_within_the_limit_passes(tmp_path: Path) -> None:
    assert ask(tmp_path, "POST", "/echo", json={"text": "x" * 900}).json() == "x" * 900


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example.org", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://localhost", 200),
        ("https://talk.example.org", 200),
    ],
)
def test_pages_of_other_origins_change_nothing(tmp_path: Path, origin: str, status: int) -> None:
    headers = {"Origin": origin}

    response = ask(tmp_path, "POST", "/echo", json={"text": "hi"}, headers=headers)

    assert response.status_code == status


def test_pages_of_an_allowed_origin_may_read_the_answer_and_others_may_not(tmp_path: Path) -> None:
    allowed = ask(tmp_path, "GET", "/healthz", headers={"Origin": "https://talk.example.org"})
    other = ask(tmp_path, "GET", "/healthz", headers={"Origin": "https://evil.example.org"})

    assert allowed.headers["Access-Control-Allow-Origin"] == "https://talk.example.org"
    assert "Access-Control-Allow-Origin" not in other.headers


@pytest.mark.parametrize("path", ["/healthz", "/nowhere", "/surprise"])
def test_every_answer_carries_the_security_headers(tmp_path: Path, path: str) -> None:
    headers = ask(tmp_path, "GET", path).headers

    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "geolocation=()" in headers["Permissions-Policy"]
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["Cache-Control"] == "no-store"
    assert "Strict-Transport-Security" not in headers, "this one came over plain HTTP"


def test_a_preflight_carries_the_security_headers_too(tmp_path: Path) -> None:
    headers = {"Origin": "https://talk.example.org", "Access-Control-Request-Method": "GET"}
    answer = ask(tmp_path, "OPTIONS", "/healthz", headers=headers)

    assert answer.headers["Access-Control-Allow-Origin"] == "https://talk.example.org"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_browsers_are_told_to_stay_with_tls(tmp_path: Path) -> None:
    answer = ask(tmp_path, "GET", "https://localhost/healthz")

    assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
