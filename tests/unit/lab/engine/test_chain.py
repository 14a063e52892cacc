"""Chains: links around a handler, the first one outermost."""

from __future__ import annotations

import asyncio

from dragoman.lab.chain import Handler, chain


def test_links_wrap_each_other_in_order() -> None:
    heard: list[str] = []

    async def outer(event: str, then: Handler[str]) -> None:
        heard.append(f"outer before {event}")
        await then(event)
        heard.append("outer after")

    async def inner(event: str, then: Handler[str]) -> None:
        heard.append("inner")
        await then(event.upper())

    async def last(event: str) -> None:
        heard.append(event)

    asyncio.run(chain([outer, inner], last)("run"))

    assert heard == ["outer before run", "inner", "RUN", "outer after"]


def test_a_link_may_keep_an_event_to_itself() -> None:
    async def refuse(event: str, then: Handler[str]) -> None:
        return None

    async def last(event: str) -> None:
        raise AssertionError("not reached")

    asyncio.run(chain([refuse], last)("run"))
