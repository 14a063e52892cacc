from __future__ import annotations

import asyncio
import gc

from dragoman.task_set import TaskSet
from dragoman.testing import virtual


@virtual
async def test_a_task_is_held_until_it_ends_and_not_longer() -> None:
    tasks = TaskSet()
    ended = asyncio.get_running_loop().create_future()

    async def work() -> None:
        # Nothing but the set knows this task: without it the collector may take it.
        await asyncio.sleep(1)
        ended.set_result(None)

    tasks.spawn(work())
    gc.collect()
    assert len(tasks) == 1
    await ended
    await asyncio.sleep(0)
    assert len(tasks) == 0


@virtual
async def test_a_failure_is_told_and_a_cancel_is_not() -> None:
    told: list[BaseException] = []
    tasks = TaskSet(told.append)

    async def fail() -> None:
        raise ValueError("no luck")

    tasks.spawn(fail())
    tasks.spawn(asyncio.sleep(1)).cancel()
    await tasks.wait()
    assert [repr(error) for error in told] == ["ValueError('no luck')"]


@virtual
async def test_stop_also_ends_what_a_cancelled_task_began() -> None:
    tasks = TaskSet()

    async def begins_another() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            tasks.spawn(asyncio.sleep(100))

    tasks.spawn(begins_another())
    await asyncio.sleep(1)
    await tasks.stop()
    assert len(tasks) == 0
    assert asyncio.get_running_loop().time() == 1


@virtual
async def test_waiting_takes_in_what_begins_meanwhile_and_no_more_time_than_is_given() -> None:
    tasks = TaskSet()

    async def in_turn(left: int) -> None:
        await asyncio.sleep(1)
        if left:
            tasks.spawn(in_turn(left - 1))

    tasks.spawn(in_turn(2))
    await tasks.wait()
    assert (len(tasks), asyncio.get_running_loop().time()) == (0, 3)
    tasks.spawn(asyncio.sleep(10))
    await tasks.wait(4)
    assert (len(tasks), asyncio.get_running_loop().time()) == (1, 7)
    await tasks.stop()


@virtual
async def test_the_result_of_a_task_belongs_to_its_awaiter() -> None:
    tasks = TaskSet()
    assert await tasks.spawn(asyncio.sleep(1, "done")) == "done"
