"""Every test of the contract runs for every keeper of session records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

import pytest
from tests.contract.session_records.backends import BACKENDS, open_records

from dragoman.live.sessions import SessionRecords

Story: TypeAlias = Callable[[SessionRecords], Awaitable[None]]
Tell: TypeAlias = Callable[[Story], None]


@pytest.fixture(params=BACKENDS)
def tell(request: pytest.FixtureRequest) -> Iterator[Tell]:
    """Tells stories, each with records that keep KEEP_DELIVERED unacknowledged deliveries."""
    with asyncio.Runner() as runner:

        async def told(story: Story) -> None:
            async with open_records(request) as records:
                await story(records)

        yield lambda story: runner.run(told(story))
