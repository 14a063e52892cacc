"""A coroutine that is begun by hand goes on as if a task had begun it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from dragoman.eager import begin


def test_one_that_never_waits_is_done_at_once() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("done")

    assert begin(work()) is None
    assert done == ["done"]


def test_what_it_raises_before_it_waits_is_raised_here() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begin(work())


def test_the_rest_gets_its_answers_its_errors_and_its_cancellation() -> None:
    async def main() -> list[str]:
        heard: list[str] = []
        loop = asyncio.get_running_loop()
        first: asyncio.Future[str] = loop.create_future()
        second: asyncio.Future[str] = loop.create_future()

        async def work() -> None:
            heard.append(await first)
            try:
                await second
            except ValueError as error:
                heard.append(str(error))
            await asyncio.sleep(0)
            try:
                await asyncio.Event().wait()
            finally:
                heard.append("cancelled")

        rest = begin(work())
        assert rest is not None
        task = asyncio.create_task(_awaited(rest))
        first.set_result("answer")
        second.set_exception(ValueError("error"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert heard == ["answer", "error"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return heard

    assert asyncio.run(main()) == ["answer", "error", "cancelled"]


async def _awaited(rest: Awaitable[None]) -> None:
    await rest
