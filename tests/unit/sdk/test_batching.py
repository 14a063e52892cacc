"""Requests are gathered into batches, by size and by time; the loop's time is make-believe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from dragoman.errors import SettingsError
from dragoman.sdk import batched
from dragoman.testing import run_virtual


class Model:
    """Doubles numbers, a second for each batch."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, list[int]]] = []
        self.at_once = 0
        self.most_at_once = 0

    async def double(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.batches.append((asyncio.get_running_loop().time(), list(numbers)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(1.0)
        self.at_once -= 1
        if 13 in numbers:
            raise ValueError("thirteen")
        return [ValueError("minus") if number < 0 else 2 * number for number in numbers]


def play(script: Callable[[Model], Awaitable[None]]) -> Model:
    model = Model()

    async def main() -> None:
        await script(model)

    run_virtual(main, seed=0)
    return model


def test_a_batch_runs_when_it_is_full_and_each_gets_its_own_reply() -> None:
    async def script(model: Model) -> None:
        double = batched(max_size=3, max_wait_ms=5000)(model.double)
        assert list(await asyncio.gather(*map(double, range(3)))) == [0, 2, 4]

    assert play(script).batches == [(0.0, [0, 1, 2])]


def test_a_batch_that_is_not_full_runs_when_its_first_request_has_waited_long_enough() -> None:
    async def script(model: Model) -> None:
        double = batched(max_size=10, max_wait_ms=50)(model.double)
        first = asyncio.create_task(double(1))
        await asyncio.sleep(0.03)
        assert list(await asyncio.gather(first, double(2))) == [2, 4]
        assert await double(3) == 6

    assert play(script).batches == [(0.05, [1, 2]), (pytest.approx(1.10), [3])]


@pytest.mark.parametrize(("max_batches", "expected"), [(1, [4, 4, 2]), (2, [4, 4, 2])])
def test_no_more_batches_run_at_once_than_allowed_and_waiting_ones_fill_up(
    max_batches: int, expected: list[int]
) -> None:
    async def script(model: Model) -> None:
        double = batched(max_size=4, max_wait_ms=10, max_batches=max_batches)(model.double)
        assert await asyncio.gather(*map(double, range(10))) == [2 * n for n in range(10)]

    model = play(script)
    assert [len(numbers) for _, numbers in model.batches] == expected
    assert model.most_at_once == max_batches


def test_a_request_that_came_while_all_was_busy_runs_when_there_is_room() -> None:
    async def script(model: Model) -> None:
        double = batched(max_size=8, max_wait_ms=10)(model.double)
        first = asyncio.create_task(double(1))
        await asyncio.sleep(0.5)
        assert await double(2) == 4
        assert await first == 2

    assert [at for at, _ in play(script).batches] == [pytest.approx(0.01), pytest.approx(1.01)]


def test_a_cancelled_request_is_not_run_and_the_others_are() -> None:
    async def script(model: Model) -> None:
        double = batched(max_size=3, max_wait_ms=100)(model.double)
        asking = [asyncio.create_task(double(number)) for number in (1, 2)]
        await asyncio.sleep(0.01)
        asking[0].cancel()
        assert await asking[1] == 4
        running = [asyncio.create_task(double(number)) for number in (3, 4)]
        await asyncio.sleep(0.5)
        running[0].cancel()
        assert await running[1] == 8
        alone = asyncio.create_task(double(5))
        await asyncio.sleep(0)
        alone.cancel()
        await asyncio.gather(alone, return_exceptions=True)
        await asyncio.sleep(5)

    assert [numbers for _, numbers in play(script).batches] == [[2], [3, 4]]


def test_one_bad_request_fails_alone_and_a_failed_batch_fails_all_of_its_own() -> None:
    async def script(model: Model) -> None:
        double = batched(max_size=2, max_wait_ms=10)(model.double)
        mixed = await asyncio.gather(double(-1), double(1), return_exceptions=True)
        assert repr(mixed[0]) == "ValueError('minus')"
        assert mixed[1] == 2
        bad = await asyncio.gather(double(13), double(1), return_exceptions=True)
        assert [repr(one) for one in bad] == ["ValueError('thirteen')"] * 2
        assert await double(4) == 8

    play(script)


def test_a_function_that_returns_too_little_is_told() -> None:
    @batched(max_size=2, max_wait_ms=1)
    async def too_few(numbers: Sequence[int]) -> list[int | Exception]:
        return []

    async def script(_: Model) -> None:
        with pytest.raises(RuntimeError, match="returned 0 replies to 1 requests"):
            await too_few(1)

    play(script)


def test_a_plain_function_runs_in_a_thread_and_keeps_its_name() -> None:
    @batched(max_size=4, max_wait_ms=1)
    def capitals(texts: Sequence[str]) -> list[str | Exception]:
        """In capitals."""
        return [text.upper() for text in texts]

    async def script() -> list[str]:
        return await asyncio.gather(*map(capitals, ["a", "b"]))

    assert asyncio.run(script()) == ["A", "B"]
    assert asyncio.run(script()) == ["A", "B"], "on another loop too"
    assert (capitals.__name__, capitals.__doc__) == ("capitals", "In capitals.")


def test_sizes_that_make_no_sense_are_refused() -> None:
    for size, wait in ((0, 1), (1, -1)):
        with pytest.raises(SettingsError, match="sizes are at least 1"):
            batched(max_size=size, max_wait_ms=wait)
