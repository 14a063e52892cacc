"""What every test may use: real servers, and how hypothesis searches."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from tests.servers import MariadbProcess, PostgresProcess, RedisCluster, RedisProcess

# Tests start hundreds of processes; without byte code on disk each compiles everything anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The machine that runs the tests may be slow: no example is judged by its time. A failure prints
# the blob that reproduces it, so no database of examples is needed.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=50,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dev")

# Nothing that collecting makes is garbage: pytest_collection_finish has the collector begin.
gc.disable()


BEGUN_FIRST = ("documents/", "integration/packaging/", "integration/cluster_chaos/")
"""Files that take a worker minutes; begun last, one of them would keep the others waiting."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hand the files to several workers in an order that keeps the processors busy.

    In the order of their names all files that wait for servers come first and all that compute
    come last. Mixed, but the same every time, they run side by side.
    """
    if hasattr(config, "workerinput"):
        root = Path(__file__).parent
        files = {item.path for item in items}
        places = {file: place_of(os.path.relpath(file, root)) for file in files}
        items.sort(key=lambda item: places[item.path])


def pytest_collection_finish() -> None:
    """Begin to collect garbage, among what the tests make and not among the tests.

    A worker knows all tests, which are more objects than most tests make; every full collection
    would look at each of them.
    """
    gc.freeze()
    gc.enable()


def place_of(name: str) -> tuple[float, str]:
    """Where a file stands in the line, from 0 to 1; the last ones are quick."""
    if name.startswith(BEGUN_FIRST):
        return 0.0, name
    mixed = crc32(name.encode()) / 2**32
    return mixed if name.startswith("unit/") else 0.9 * mixed, name


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A test may configure logging, which belongs to the process; the next one starts afresh."""
    root = logging.getLogger()
    known = [root, *_loggers()]
    before = [(log, log.level, log.handlers[:], log.filters[:], log.disabled) for log in known]
    yield
    for log, level, handlers, filters, disabled in before:
        log.handlers[:], log.filters[:], log.disabled = handlers, filters, disabled
        if log.level != level:
            log.setLevel(level)
    for log in _loggers():
        if log not in known:
            log.handlers.clear()
            log.filters.clear()
            log.setLevel(logging.NOTSET)


def _loggers() -> list[logging.Logger]:
    found = logging.Logger.manager.loggerDict.values()
    return [log for log in found if isinstance(log, logging.Logger)]


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    """A Redis for the whole run. Use keys of your own, and leave it running."""
    server = RedisProcess(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """A Redis Cluster for the whole run. Use keys of your own, and leave it running."""
    cluster = RedisCluster(tmp_path_factory.mktemp("redis-cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    """A Redis of the test's own, to be paused, killed or emptied."""
    server = RedisProcess(tmp_path / "redis")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresProcess]:
    """A PostgreSQL for the whole run. Use databases of your own, and leave it running."""
    server = PostgresProcess()
    yield server
    server.stop()


@pytest.fixture
def own_postgres() -> Iterator[PostgresProcess]:
    """A PostgreSQL of the test's own, to be killed or cut off."""
    server = PostgresProcess()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbProcess]:
    """A MariaDB for the whole run. Use databases of your own, and leave it running."""
    server = MariadbProcess()
    yield server
    server.stop()


@pytest.fixture
def own_mariadb() -> Iterator[MariadbProcess]:
    """A MariaDB of the test's own, to be killed or cut off."""
    server = MariadbProcess()
    yield server
    server.stop()
