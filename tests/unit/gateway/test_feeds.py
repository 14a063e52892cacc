"""Frames reach their handler one after another, whether it waits or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from dragoman.live.gateway.feeds import FrameQueue, Pushing
from dragoman.live.gateway.frame_reader import FRAMES_PER_TURN
from dragoman.live.gateway.wire import Frame, Handle, WireClosed

END = WireClosed(1000)


def read(item: Any) -> Frame | WireClosed:
    assert isinstance(item, str | WireClosed)
    return item


def queued(message: Handle) -> None:
    """The reader of these tests puts every frame into the queue."""


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_a_frame_that_need_not_wait_is_handled_where_it_arrives() -> None:
    handled: list[Frame] = []

    def handle(frame: Frame) -> None:
        handled.append(frame)

    async def main() -> None:
        arrivals = FrameQueue(asyncio.get_running_loop())
        feeding = asyncio.create_task(Pushing(arrivals, read, lambda: None, queued).feed(handle))
        await asyncio.sleep(0)
        arrivals.put_nowait("one")
        assert handled == ["one"]
        arrivals.put_nowait(END)
        assert await feeding == END

    run(main())


def test_frames_wait_for_the_one_that_waits_and_keep_their_order() -> None:
    handled: list[Frame] = []

    async def main() -> None:
        gate = asyncio.Event()

        def handle(frame: Frame) -> Awaitable[None] | None:
            if frame == "slow":
                return wait(frame)
            handled.append(frame)
            return None

        async def wait(frame: Frame) -> None:
            await gate.wait()
            handled.append(frame)

        emptied: list[None] = []
        arrivals = FrameQueue(asyncio.get_running_loop())
        arrivals.stalled = True
        pushing = Pushing(arrivals, read, lambda: emptied.append(None), queued)
        feeding = asyncio.create_task(pushing.feed(handle))
        await asyncio.sleep(0)
        emptied.clear()
        for frame in ("one", "slow", "three", "four", END):
            arrivals.put_nowait(frame)
        assert handled == ["one"]
        assert emptied == [None]  # after "one"; nobody reads on while one waits
        gate.set()
        assert await feeding == END
        assert handled == ["one", "slow", "three", "four"]

    run(main())


def test_a_flood_of_one_connection_lets_others_have_their_turn() -> None:
    handled: list[Frame] = []

    def handle(frame: Frame) -> None:
        handled.append(frame)

    async def main() -> None:
        arrivals = FrameQueue(asyncio.get_running_loop())
        feeding = asyncio.create_task(Pushing(arrivals, read, lambda: None, queued).feed(handle))
        await asyncio.sleep(0)
        arrivals.items.extend(str(number) for number in range(3 * FRAMES_PER_TURN))
        arrivals.on_arrival()
        assert len(handled) == FRAMES_PER_TURN
        arrivals.put_nowait(END)
        await feeding
        assert handled == [str(number) for number in range(3 * FRAMES_PER_TURN)]

    run(main())


def test_a_feed_that_is_cancelled_takes_the_waiting_frame_with_it() -> None:
    let_go: list[str] = []

    async def handle(frame: Frame) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            let_go.append("let go")

    async def main() -> None:
        arrivals = FrameQueue(asyncio.get_running_loop())
        feeding = asyncio.create_task(Pushing(arrivals, read, lambda: None, queued).feed(handle))
        await asyncio.sleep(0)
        arrivals.put_nowait("one")
        await asyncio.sleep(0)
        feeding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await feeding
        assert let_go == ["let go"]

    run(main())


def test_a_reader_gives_messages_straight_to_the_handler_unless_one_of_them_waits() -> None:
    handled: list[Frame] = []

    async def main() -> None:
        gate = asyncio.Event()

        def handle(frame: Frame) -> Awaitable[None] | None:
            if frame == "slow":
                return wait(frame)
            handled.append(frame)
            return None

        async def wait(frame: Frame) -> None:
            await gate.wait()
            handled.append(frame)

        direct = asyncio.Event()
        told: list[Handle] = []
        arrivals = FrameQueue(asyncio.get_running_loop())
        pushing = Pushing(arrivals, read, direct.set, told.append)
        feeding = asyncio.create_task(pushing.feed(handle))
        await asyncio.sleep(0)
        assert told == [handle]
        waits = told[-1]("slow")
        assert waits is not None
        pushing.wait(waits)
        for frame in ("two", "three"):
            assert told[-1](frame) is None
        assert handled == []
        assert list(arrivals.items) == ["two", "three"]
        arrivals.stalled = True
        gate.set()
        await direct.wait()
        assert handled == ["slow", "two", "three"]
        told[-1]("four")
        arrivals.put_nowait(END)
        assert await feeding == END
        told[-1]("after the end")
        assert handled == ["slow", "two", "three", "four"]

    run(main())
