"""Every test of the contract runs on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.contract.shared.backends import BACKENDS, LIVES, open_bench
from tests.contract.shared.bench import Bench

SEED = 20_261_116


@pytest.fixture(params=BACKENDS)
def make_bench(request: pytest.FixtureRequest) -> Iterator[Callable[..., Bench]]:
    """Benches of one backend, each with a ledger of its own; options go to the ledger."""
    with asyncio.Runner() as runner:
        opened: list[Bench] = []

        def make(**options: int) -> Bench:
            bench = open_bench(request, runner, Random(SEED), **options)
            opened.append(bench)
            return bench

        yield make
        for bench in opened:
            bench(bench.ledger.stop())


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """A ledger with nothing in it."""
    return make_bench()


@pytest.fixture
def lives(request: pytest.FixtureRequest, make_bench: Callable[..., Bench]) -> int:
    return LIVES[request.node.callspec.params["make_bench"]]
