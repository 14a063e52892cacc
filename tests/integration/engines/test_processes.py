"""A pool of processes: what they answer, and that none of them is left."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.engines.processes import ProcessPool
from dragoman.sdk import JobFailed, ModelMissing


def pids(pool: ProcessPool) -> list[int]:
    return [process.pid for process in pool._started]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def on(
    opener: str,
    script: Callable[[ProcessPool], Awaitable[None]],
    size: int = 1,
    **settings: Any,
) -> None:
    async def scenario() -> None:
        pool = ProcessPool(opener, settings, size, "tested")
        seen: list[int] = []
        try:
            await script(pool)
            seen = pids(pool)
        finally:
            await pool.close()
        assert not [pid for pid in seen if is_there(pid)]

    asyncio.run(scenario())


PARTIAL = "functools:partial"
"""Cannot be made from keywords alone."""
TALKATIVE = f"{__name__}:open_talkative"


def open_talkative() -> Callable[[Any], Any]:
    """Prints while it opens and while it answers; 0 ends the process, a text is refused."""
    print("loading ...", flush=True)  # noqa: T201

    def answer(number: Any) -> Any:
        print("working ...", flush=True)  # noqa: T201
        if number == 0:
            os._exit(3)
        return 10 / number

    return answer


def test_a_function_answers_and_what_it_prints_disturbs_nothing() -> None:
    async def script(pool: ProcessPool) -> None:
        await pool.warm_up()
        assert len(pids(pool)) == 2
        answers = await asyncio.gather(*(pool.call(number, 30) for number in (1, 2, 5)))
        assert list(answers) == [10, 5, 2]
        with pytest.raises(JobFailed, match="tested failed: TypeError"):
            await pool.call("x", 30)
        assert await pool.call(4, 30) == 2.5
        assert len(pids(pool)) == 2, "a request that fails costs no process"

    on(TALKATIVE, script, size=2)


def test_a_process_that_dies_fails_its_call_and_the_next_one_has_another() -> None:
    async def script(pool: ProcessPool) -> None:
        with pytest.raises(JobFailed, match="The process of tested ended during a job"):
            await pool.call(0, 30)
        assert await pool.call(1, 30) == 10

    on(TALKATIVE, script)


@pytest.mark.parametrize("opener", ["no_such_module:x", "math:no_such_function", PARTIAL])
def test_a_function_that_cannot_be_opened_is_a_model_that_is_not_available(opener: str) -> None:
    async def script(pool: ProcessPool) -> None:
        for starting in (pool.warm_up(), pool.warm_up()):
            with pytest.raises(ModelMissing, match="tested cannot be used"):
                await starting
        with pytest.raises(ModelMissing):
            await pool.call(1, 30)
        assert pids(pool) == []

    on(opener, script)


def test_a_start_that_is_given_up_leaves_no_process() -> None:
    async def script(pool: ProcessPool) -> None:
        starting = asyncio.create_task(pool.warm_up())
        while not pids(pool):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        begun = pids(pool)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await pool.close()
        assert not [pid for pid in begun if is_there(pid)]

    on(TALKATIVE, script, size=2)
