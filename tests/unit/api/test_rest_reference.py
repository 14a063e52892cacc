"""The reference page of the REST API is made from the OpenAPI document."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.api.contract import contract
from dragoman.api.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rest.md"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return asyncio.run(contract())


def test_the_page_is_up_to_date(document: dict[str, Any]) -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(document), "run `make reference`"


def test_the_page_has_every_route_once(document: dict[str, Any]) -> None:
    headings = [
        line.removeprefix("### ")
        for line in reference(document).splitlines()
        if line.startswith("### ") and " /" in line
    ]
    routes = [
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    ]
    assert sorted(headings) == sorted(routes)
