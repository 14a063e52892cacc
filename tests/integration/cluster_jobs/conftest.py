"""Two real servers over one real Redis, and more for tests that end one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from random import Random

import pytest
from tests.integration.live_api.manual_node import Caller, new_pair
from tests.integration.serve.server_process import ServerProcess, environment
from tests.servers import RedisProcess

from dragoman.ids import new_id

Start = Callable[[], ServerProcess]


@pytest.fixture(scope="module")
def start(redis_server: RedisProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start one more instance of the cluster, which notices soon who is gone."""
    folder = tmp_path_factory.mktemp("cluster")
    numbers = count(1)
    env = environment(
        DRAGOMAN_CLUSTER__ENABLED="true",
        DRAGOMAN_CLUSTER__REDIS_URL=redis_server.url,
        DRAGOMAN_CLUSTER__KEY_PREFIX=new_id(Random(), "cluster-jobs"),
        DRAGOMAN_CLUSTER__PRESENCE_TTL_SECONDS="6",
        DRAGOMAN_CLUSTER__OWNER_TTL_SECONDS="9",
        DRAGOMAN_CLUSTER__RECONCILE_SECONDS="1",
        # The machine may be busy with other tests: slow is not down here.
        DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS="5000",
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__ACK_SECONDS="3",
    )
    with ExitStack() as running:

        def one() -> ServerProcess:
            data_dir = folder / f"instance-{next(numbers)}"
            return running.enter_context(ServerProcess(data_dir, "--log-level", "debug", env=env))

        yield one


@pytest.fixture(scope="module")
def a(start: Start) -> ServerProcess:
    return start()


@pytest.fixture(scope="module")
def b(start: Start) -> ServerProcess:
    return start()


@pytest.fixture
def mortal(start: Start) -> ServerProcess:
    """An instance that the test may end."""
    return start()


@pytest.fixture
def at_a(a: ServerProcess) -> Iterator[Caller]:
    caller = Caller(a)
    yield caller
    caller.close()


@pytest.fixture
def at_mortal(mortal: ServerProcess) -> Iterator[Caller]:
    caller = Caller(mortal)
    yield caller
    caller.close()


@pytest.fixture
def pair() -> tuple[str, str]:
    return new_pair()
