"""What every test may use: real servers, and how hypothesis searches."""

from __future__ import annotations

import gc
import logging
import os
import signal
import ssl
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from tests.places import piece_of, place_of
from tests.servers import MariadbProcess, PostgresProcess, RedisCluster, RedisProcess

from dragoman.observability import events

# Tests start hundreds of processes; without byte code on disk each compiles everything anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What tests start inherits an ignored signal, such as nohup leaves, and respects it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Workers share the processors. With a thread for each of them, the matrices of the statistics cost
# ten times as much: threads that wait for one another spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

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

# Every client of httpx reads some 150 certificates, which takes longer than most of its calls.
_make_tls = cache(httpx.create_ssl_context)


def _tls_once(**options: Any) -> ssl.SSLContext:
    """What `httpx.create_ssl_context` makes; once for the same options and environment."""
    files = [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
    return httpx.create_ssl_context(**options) if any(files) else _make_tls(**options)


setattr(httpx._transports.default, "create_ssl_context", _tls_once)  # noqa: B010

# Nothing that collecting makes is garbage: pytest_collection_finish has the collector begin.
gc.disable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the tests among workers, file by file and longest first."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.distribution import Distribution

    return Distribution(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hand the files to several workers in an order that keeps the processors busy."""
    if hasattr(config, "workerinput"):
        places = {item: place_of(piece_of(item.nodeid)) for item in items}
        items.sort(key=places.__getitem__)


def pytest_collection_finish() -> None:
    """Begin to collect garbage, among what the tests make and not among the tests.

    A worker knows all tests, which are more objects than most tests make; every full collection
    would look at each of them.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A test may configure logging, which belongs to the process; the next one starts afresh."""
    # A fixture that several tests share may have configured it before the first of them.
    _unconfigured()
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


def _unconfigured() -> None:
    """Take back what `configure_logging` did."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, events._DragomanHandler)]:
        root.removeHandler(handler)
        root.setLevel(logging.WARNING)
        logging.getLogger("dragoman").setLevel(logging.NOTSET)


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
