"""One demo server for every test of the room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.serve.server_process import DRAGOMAN, ServerProcess


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("say") / "data"
    quiet = ("--nodes", "3", "--real-nodes", "0", "--traffic", "0")
    with ServerProcess(folder, *quiet, command=(DRAGOMAN, "demo")) as server:
        yield server
