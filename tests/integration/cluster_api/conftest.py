"""Two real instances over one real Redis, for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.servers import RedisProcess


@pytest.fixture(scope="module")
def pair_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    server = RedisProcess(tmp_path_factory.mktemp("pair-redis"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def servers(
    pair_redis: RedisProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PairOfServers]:
    """Instances `one` and `two`, in open mode, which know each other."""
    with PairOfServers(pair_redis, tmp_path_factory.mktemp("pair")) as servers:
        yield servers


@pytest.fixture
def own_servers(own_redis: RedisProcess, tmp_path: Path) -> Iterator[PairOfServers]:
    """The same, to be killed."""
    with PairOfServers(own_redis, tmp_path) as servers:
        yield servers
