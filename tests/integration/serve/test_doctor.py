"""``dragoman doctor`` beside a server that runs."""

from __future__ import annotations

import json

import pytest
from tests.integration.serve.server_process import ServerProcess

from dragoman.cli import main


def test_a_server_that_runs_is_found_and_asked(
    keys_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json", "--data-dir", str(keys_server.data_dir)]) == 0

    checks = {check["check"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["address"]["found"] == (
        f"a server answers at {keys_server.url} (pid {keys_server.process.pid})"
    )
    assert checks["database"]["level"] == "ok"
