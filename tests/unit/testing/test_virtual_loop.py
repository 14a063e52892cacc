from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.testing import Deadlock, VirtualClock, VirtualLoop, run_virtual, virtual

DAY_SECONDS = 86_400.0


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_day_of_sleeping_passes_to_the_second_without_waiting() -> None:
    async def sleeper() -> int:
        naps = 0
        while now() < DAY_SECONDS:
            await asyncio.sleep(60)
            naps += 1
        return naps

    async def main() -> list[int]:
        return await asyncio.gather(*(sleeper() for _ in range(100)))

    assert run_virtual(main, seed=1) == [1440] * 100


def order_of_timers_due_together(seed: int) -> list[int]:
    order: list[int] = []

    async def main() -> None:
        async def nap(number: int) -> None:
            await asyncio.sleep(1)
            order.append(number)

        await asyncio.gather(*(nap(number) for number in range(20)))

    run_virtual(main, seed=seed)
    return order


@given(seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_order_again(seed: int) -> None:
    assert order_of_timers_due_together(seed) == order_of_timers_due_together(seed)


def test_another_seed_may_give_another_order() -> None:
    assert len({tuple(order_of_timers_due_together(seed)) for seed in range(5)}) > 1


def test_a_group_is_cancelled_in_the_same_order_in_every_run() -> None:
    def order_of_ends() -> list[int]:
        ends: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ends.append(number)

        async def main() -> None:
            async with asyncio.timeout(1), asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(wait(number))

        with pytest.raises(TimeoutError):
            run_virtual(main, seed=1)
        return ends

    first = order_of_ends()
    for size in range(1, 20):
        clutter = [bytearray(size * 97) for _ in range(size * 13)]  # moves tasks about in memory
        assert order_of_ends() == first
        del clutter


def test_call_soon_stays_first_come_first_served_whatever_the_seed() -> None:
    for seed in range(20):
        order: list[int] = []

        async def main(order: list[int] = order) -> None:
            for number in range(50):
                asyncio.get_running_loop().call_soon(order.append, number)
            await asyncio.sleep(0)

        run_virtual(main, seed=seed)
        assert order == list(range(50))


@given(delays=st.lists(st.floats(0, 1000), max_size=40), seed=st.integers(0, 1000))
def test_timers_run_at_their_time_and_in_its_order(delays: list[float], seed: int) -> None:
    rang: list[tuple[float, float]] = []

    async def main() -> None:
        def ring(due: float) -> None:
            rang.append((due, now()))

        for delay in delays:
            asyncio.get_running_loop().call_later(delay, ring, delay)
        await asyncio.sleep(1000)

    run_virtual(main, seed=seed)
    assert [due for due, _ in rang] == sorted(due for due, _ in rang)
    assert all(due == at for due, at in rang)
    assert len(rang) == len(delays)


def test_what_asyncio_offers_for_waiting_works_as_ever() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)

        async def produce() -> None:
            for item in ("a", "b", "c"):
                await asyncio.sleep(10)
                await queue.put(item)

        async def consume() -> None:
            for _ in range(3):
                seen.append(await queue.get())

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 5)
        done, pending = await asyncio.wait(
            [asyncio.create_task(asyncio.sleep(1)), asyncio.create_task(asyncio.sleep(99))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        seen.append(f"{len(done)} done, {len(pending)} pending at {now():g}")
        return seen

    assert run_virtual(main, seed=3) == ["a", "b", "c", "1 done, 1 pending at 41"]


def test_tasks_left_over_are_cancelled_and_may_take_their_time() -> None:
    cleaned_at: list[float] = []

    async def leftover() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(5)
            cleaned_at.append(now())

    async def main() -> None:
        main_task.append(asyncio.create_task(leftover()))
        await asyncio.sleep(1)

    main_task: list[asyncio.Task[None]] = []
    run_virtual(main, seed=1)
    assert cleaned_at == [6.0]


def test_a_deadlock_names_the_tasks_that_wait_and_the_seed() -> None:
    async def wait_for_nobody() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(wait_for_nobody(), name="the lonely one")
        await asyncio.sleep(7)
        await task

    with pytest.raises(Deadlock, match=r"At 7\.000 s .*the lonely one .*wait_for_nobody.*seed 42"):
        run_virtual(main, seed=42)


def test_threads_are_refused_with_the_reason() -> None:
    async def use_a_thread() -> None:
        await asyncio.to_thread(len, "abc")

    async def call_from_a_thread() -> None:
        loop = asyncio.get_running_loop()
        refusals: list[RuntimeError] = []

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as refusal:
                refusals.append(refusal)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        raise refusals[0]

    for main in (use_a_thread, call_from_a_thread):
        with pytest.raises(RuntimeError, match="has no threads"):
            run_virtual(main, seed=1)


def test_a_task_that_fails_unnoticed_fails_the_run_even_if_it_is_still_held() -> None:
    held: list[asyncio.Task[None]] = []

    async def fail() -> None:
        raise ValueError("nobody looked")

    async def main() -> None:
        held.append(asyncio.create_task(fail()))
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main, seed=1)
    assert [str(error) for error in caught.value.exceptions] == ["nobody looked"]
    held.clear()
    gc.collect()


def test_a_callback_that_fails_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
        await asyncio.sleep(2)

    with pytest.raises(ExceptionGroup, match="unnoticed failures") as caught:
        run_virtual(main, seed=1)
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)


def test_what_is_deferred_comes_in_its_time_among_timers_and_fails_the_run_if_it_fails() -> None:
    came: list[tuple[str, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.call_later(2.0, lambda: came.append(("timer", now())))
        loop.defer(3.0, lambda: came.append(("late", now())))
        loop.defer(1.0, lambda what: came.append((what, now())), "early")
        loop.call_later(2.5, lambda: came.append(("never", now()))).cancel()
        await asyncio.sleep(4)
        loop.defer(1.0, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(ExceptionGroup, match="unnoticed failures") as caught:
        run_virtual(main, seed=1)
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
    assert came == [("early", 1.0), ("timer", 2.0), ("late", 3.0)]


def test_the_error_of_main_is_raised_and_tells_of_failures_in_the_background() -> None:
    async def fail() -> None:
        raise ValueError("in the background")

    async def main() -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        raise KeyError(task.get_name())

    with pytest.raises(KeyError) as caught:
        run_virtual(main, seed=1)
    assert "in the background" in "".join(caught.value.__notes__)


def test_cancelled_timeouts_do_not_pile_up() -> None:
    async def main() -> int:
        for _ in range(10_000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return len(loop._timers)

    assert run_virtual(main, seed=1) < 300


def test_the_virtual_clock_follows_the_loop_to_the_millisecond() -> None:
    async def main() -> tuple[int, float]:
        clock = VirtualClock(asyncio.get_running_loop(), start_ms=1_000)
        for _ in range(435):
            await asyncio.sleep(0.01)
        return clock.now_ms(), clock.monotonic()

    now_ms, seconds = run_virtual(main, seed=1)
    assert now_ms == 5_350
    assert seconds == pytest.approx(4.35)


def test_a_coroutine_will_do_for_main_and_generators_are_closed() -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def main() -> int:
        generator = numbers()
        return await anext(generator)

    assert run_virtual(main(), seed=1) == 1
    assert closed == [True]


def test_a_refusal_that_a_thread_keeps_to_itself_fails_the_run() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def call() -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(print)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    with pytest.raises(BaseExceptionGroup) as caught:
        run_virtual(main, seed=1)
    assert "has no threads" in str(caught.value.exceptions[0])


def test_threads_run_on_the_loop_where_a_test_asks_for_that() -> None:
    async def main() -> tuple[int, float, int]:
        here = threading.get_ident()
        length = await asyncio.to_thread(len, "abc")
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return length, now(), await asyncio.to_thread(threading.get_ident) - here

    assert run_virtual(main, seed=1, inline_threads=True) == (3, 0.0, 0)


def test_a_decorated_test_is_a_plain_function_that_keeps_its_name_and_arguments() -> None:
    @virtual(seed=3)
    async def add(a: int, *, b: int) -> tuple[int, int]:
        """Adds."""
        await asyncio.sleep(DAY_SECONDS / 2)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return a + b, loop.seed

    assert not asyncio.iscoroutinefunction(add)
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert add(1, b=2) == (3, 3)


def test_a_decorated_test_runs_once_for_each_seed_and_a_failure_names_its_own() -> None:
    seen: list[int] = []

    @virtual(seeds=range(5))
    async def fails_with_three() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        seen.append(loop.seed)
        assert loop.seed != 3

    with pytest.raises(AssertionError) as caught:
        fails_with_three()
    assert seen == [0, 1, 2, 3]
    assert any("seed 3" in note for note in caught.value.__notes__)


def test_a_test_without_seeds_is_refused() -> None:
    async def never() -> None:
        raise AssertionError

    with pytest.raises(ValueError, match="seeds"):
        virtual(seeds=())(never)


def test_a_wait_for_what_does_not_come_ends_after_a_virtual_day() -> None:
    async def wait() -> None:
        while True:  # noqa: ASYNC110  # a poll is what the limit is for
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError, match="86400 s of virtual time"):
        virtual(wait)()
    with pytest.raises(TimeoutError, match="5 s of virtual time"):
        run_virtual(wait, seed=1, within_seconds=5)


def test_a_timeout_of_the_test_s_own_stays_as_it_is() -> None:
    @virtual
    async def impatient() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(2)

    with pytest.raises(TimeoutError) as caught:
        impatient()
    assert "virtual time" not in str(caught.value)
