"""Long lists are answered a page at a time, each item once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fastapi import APIRouter
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.api.application import asked, settings_in

from dragoman.api import Page, Paging, decode_cursor, encode_cursor
from dragoman.errors import InvalidMessage

ITEMS = list(range(2_345))

router = APIRouter()


@router.get("/items")
async def items(paging: Paging) -> Page[int]:
    start = paging.position(int) or 0
    end = start + paging.limit
    return Page(items=ITEMS[start:end], next=encode_cursor(end) if end < len(ITEMS) else None)


@given(st.tuples(st.integers(0, 2**53), st.text()))
def test_a_cursor_leads_back_to_its_position(position: tuple[int, str]) -> None:
    assert decode_cursor(encode_cursor(position), tuple[int, str]) == position


@given(st.text())
def test_a_cursor_that_is_none_of_ours_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidMessage, match="not one of this list"):
        decode_cursor(cursor, dict[str, dict[str, int]])


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        decode_cursor(encode_cursor("a name"), int)


def test_following_next_shows_every_item_once(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with asked(settings_in(tmp_path), [router]) as (client, _):
            seen: list[int] = []
            query: dict[str, str] = {"limit": "1000"}
            while True:
                page = (await client.get("/items", params=query)).json()
                seen += page["items"]
                if page["next"] is None:
                    return seen
                query["cursor"] = page["next"]

    assert asyncio.run(scenario()) == ITEMS


def test_the_limit_is_a_hundred_and_at_most_a_thousand(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with asked(settings_in(tmp_path), [router]) as (client, _):
            assert len((await client.get("/items")).json()["items"]) == 100
            for limit in ("0", "1001", "-1", "many"):
                refused = await client.get("/items", params={"limit": limit})
                assert refused.status_code == 422
                assert refused.json()["error"]["code"] == "INVALID_MESSAGE"

    asyncio.run(scenario())
