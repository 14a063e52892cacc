"""A server that gives up on nodes quickly, one that does not, and a fleet for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.live_api.manual_node import new_pair
from tests.integration.node_faults.audit import EndCount
from tests.integration.node_faults.node_process import Fleet
from tests.integration.serve.server_process import ServerProcess, environment

NEVER_DEGRADED = """
window = 100000
window_failures = 100000
consecutive_failures = 100000
"""
"""On a busy machine heartbeats are late, and these tests are not about that."""

HASTY = f"""
[scheduler.node_health]
heartbeat_interval_seconds = 0.5
heartbeat_timeout_seconds = 4
reconnect_grace_seconds = 0.5
{NEVER_DEGRADED}
[scheduler.job_timeout]
pending_seconds = 60
ack_seconds = 3
run_seconds = 60
total_seconds = 120
cancel_grace_seconds = 1
"""

PATIENT = f"""
[scheduler.node_health]
reconnect_grace_seconds = 60
{NEVER_DEGRADED}
[scheduler.job_timeout]
pending_seconds = 120
ack_seconds = 60
run_seconds = 120
total_seconds = 240
"""


def serving(settings: str, folder: Path) -> Iterator[ServerProcess]:
    file = folder / "dragoman.toml"
    file.write_text(settings)
    with ServerProcess(folder / "data", "--config", file, env=environment()) as server:
        yield server
        assert "Traceback" not in server.log, "whatever nodes do, nothing breaks in the server"


@pytest.fixture(scope="session")
def hasty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Gives up on nodes within seconds."""
    yield from serving(HASTY, tmp_path_factory.mktemp("hasty"))


@pytest.fixture(scope="session")
def patient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Gives nodes more time than any test takes."""
    yield from serving(PATIENT, tmp_path_factory.mktemp("patient"))


@pytest.fixture
def server(hasty_server: ServerProcess) -> ServerProcess:
    """The server that a test's fleet joins; files that want the other one say so."""
    return hasty_server


@pytest.fixture
def fleet(server: ServerProcess, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(server, tmp_path, new_pair())
    yield fleet
    fleet.end()


@pytest.fixture
def ends(server: ServerProcess) -> EndCount:
    return EndCount(server)
