"""Errands go along with the next call to the same place, or soon by themselves; none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from dragoman.errors import DependencyDown
from dragoman.live.ledger.redis.errands import Errands

PATIENCE_SECONDS = 0.01
FOR_EVER_SECONDS = 3_600.0


class Post:
    """Hears what is told in a call of its own."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, tuple[str, ...]]] = []
        self.away = False
        self.told = asyncio.Event()

    def tell(self, tag: int, names: Sequence[str]) -> asyncio.Future[Any]:
        call: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.away:
            call.set_exception(DependencyDown("away"))
        else:
            self.heard.append((tag, tuple(names)))
            call.set_result(None)
        self.told.set()
        return call


def test_what_waits_goes_along_with_a_call_once() -> None:
    async def live() -> None:
        post = Post()
        errands = Errands(post.tell, PATIENCE_SECONDS)
        errands.add(1, ["a", "b"])
        errands.add(1, ["c"])
        errands.add(2, ["d"])
        assert list(errands.take(1)) == ["a", "b", "c"]
        assert list(errands.take(1)) == []
        await errands.finish()
        assert post.heard == [(2, ("d",))]

    asyncio.run(live())


def test_without_a_call_to_go_with_it_is_told_soon() -> None:
    async def live() -> None:
        post = Post()
        errands = Errands(post.tell, PATIENCE_SECONDS)
        errands.add(1, ["a"])
        await asyncio.wait_for(post.told.wait(), 10)
        assert post.heard == [(1, ("a",))]
        await errands.finish()

    asyncio.run(live())


def test_a_caller_that_would_notice_has_it_told_first() -> None:
    async def live() -> None:
        post = Post()
        errands = Errands(post.tell, FOR_EVER_SECONDS)
        errands.add(1, ["a"])
        errands.run(1)
        assert post.heard == [(1, ("a",))]
        await errands.finish()
        assert post.heard == [(1, ("a",))]

    asyncio.run(live())


def test_what_a_broken_call_took_along_waits_for_the_next() -> None:
    async def live() -> None:
        errands = Errands(Post().tell, FOR_EVER_SECONDS)
        errands.add(1, ["a"])
        call: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        errands.went(1, errands.take(1), call)
        call.set_exception(DependencyDown("away"))
        await asyncio.sleep(0)
        assert list(errands.take(1)) == ["a"]
        await errands.finish()

    asyncio.run(live())


def test_what_is_not_heard_is_told_again_until_it_is() -> None:
    async def live() -> None:
        post = Post()
        post.away = True
        errands = Errands(post.tell, PATIENCE_SECONDS)
        errands.add(1, ["a"])
        await asyncio.wait_for(post.told.wait(), 10)
        assert post.heard == []
        post.away = False
        post.told.clear()
        await asyncio.wait_for(post.told.wait(), 10)
        assert post.heard == [(1, ("a",))]
        await errands.finish()

    asyncio.run(live())


def test_at_the_end_everything_is_told_and_nothing_more_is_taken() -> None:
    async def live() -> None:
        post = Post()
        errands = Errands(post.tell, FOR_EVER_SECONDS)
        errands.add(1, ["a"])
        errands.add(2, ["b"])
        await errands.finish()
        errands.add(3, ["c"])
        assert sorted(post.heard) == [(1, ("a",)), (2, ("b",))]
        assert list(errands.take(3)) == []

    asyncio.run(live())
