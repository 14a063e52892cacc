"""One real server for all tests of a file, and a pool of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.live_api.manual_node import Caller, new_pair
from tests.integration.serve.server_process import ServerProcess, environment


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Jobs that wait are refused after a second, so that no test waits longer."""
    env = environment(DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="1")
    folder = tmp_path_factory.mktemp("live") / "data"
    with ServerProcess(folder, "--log-level", "debug", env=env) as server:
        yield server


@pytest.fixture
def caller(server: ServerProcess) -> Iterator[Caller]:
    caller = Caller(server)
    yield caller
    caller.close()


@pytest.fixture
def pair() -> tuple[str, str]:
    return new_pair()
