"""An item's time stands still while its call waits in a line."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.errors import ItemTimeout
from dragoman.lab.worker.execution.allowance import Allowance
from dragoman.testing import VirtualClock, VirtualLoop, virtual


def allowance(seconds: float) -> Allowance:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return Allowance(seconds, VirtualClock(loop))


@virtual
async def test_the_wait_in_line_is_not_counted() -> None:
    left = allowance(10)

    async def call() -> str:
        left.pause()
        await asyncio.sleep(3600)
        left.resume()
        await asyncio.sleep(9)
        return "served"

    assert await left.run(call) == "served"
    assert not left.used_up


@virtual
async def test_what_comes_after_the_wait_is_counted() -> None:
    left = allowance(10)

    async def call() -> None:
        await asyncio.sleep(5)
        left.pause()
        await asyncio.sleep(3600)
        left.resume()
        await asyncio.sleep(6)

    with pytest.raises(ItemTimeout):
        await left.run(call)
    assert left.used_up


@virtual
async def test_a_wait_that_never_ends_before_the_call_does_leaves_the_rest() -> None:
    left = allowance(10)

    async def waits() -> None:
        left.pause()
        await asyncio.sleep(100)

    async def works() -> None:
        await asyncio.sleep(11)

    await left.run(waits)
    assert not left.used_up
    with pytest.raises(ItemTimeout):
        await left.run(works)
