"""One server that asks for keys, for every test that leaves it running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.serve.server_process import ServerProcess, environment


@pytest.fixture(scope="session")
def keys_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(
        DRAGOMAN_AUTH__MODE="keys", DRAGOMAN_LIMITS__AUTH_FAILURES_PER_MINUTE="100000"
    )
    folder = tmp_path_factory.mktemp("serve") / "data"
    with ServerProcess(folder, "--log-level", "debug", env=env) as server:
        yield server
