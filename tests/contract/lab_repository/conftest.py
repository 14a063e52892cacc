"""Every test of the contract runs on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.lab_repository.bench import Bench
from tests.servers import DATABASES, fresh_database

from dragoman.store import open_store


@pytest.fixture(params=DATABASES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A database with one experiment on it and nothing started."""
    url = fresh_database(request.param, request, tmp_path)
    with asyncio.Runner() as runner:
        store = runner.run(open_store(url))
        yield Bench(runner, store)
        runner.run(store.close())
