"""Every test of the contract runs on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contract.lab_repository.bench import Bench
from tests.servers import DATABASES, fresh_database

from dragoman.store import open_store


@pytest.fixture(params=DATABASES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A database with one experiment on it and nothing started."""
    with _opened(fresh_database(request.param, request, tmp_path)) as opened:
        yield opened


@pytest.fixture(scope="module", params=DATABASES)
def lasting_bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """The same for all tests of a module, which leave what it holds as they found it."""
    url = fresh_database(request.param, request, tmp_path_factory.mktemp("lasting"))
    with _opened(url) as opened:
        yield opened


@contextmanager
def _opened(url: str) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        store = runner.run(open_store(url))
        yield Bench(runner, store)
        runner.run(store.close())
