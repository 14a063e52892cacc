"""Every test of the contract runs on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from tests.contract.cluster.backends import BACKENDS, open_bench
from tests.contract.cluster.bench import Bench

SEED = 20_240_229


@pytest.fixture(params=BACKENDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A cluster without instances."""
    with asyncio.Runner() as runner:
        bench = open_bench(request, runner, Random(SEED))
        yield bench
        bench.close()
