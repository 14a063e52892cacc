"""What SIGTERM means to a node and to the server while jobs run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.live_api.manual_node import new_pair, problem
from tests.integration.node_faults.audit import EndCount, check_ends, nodes_of
from tests.integration.node_faults.node_process import Fleet, RecordedNode
from tests.integration.serve.server_process import ServerProcess, eventually


@pytest.fixture
def mortal_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for one test, which may end it."""
    with ServerProcess(tmp_path / "data") as server:
        yield server


def check_that_it_was_told_and_can_leave(node: RecordedNode) -> None:
    """A node whose server is gone knows why, and need not wait for another one."""
    eventually(lambda: bool(node.events("Disconnected")), "the node is told")
    assert node.events("Disconnected")[0]["code"] == 1001
    node.signal(signal.SIGTERM)
    assert node.wait() == 0


def test_a_node_that_is_told_to_end_finishes_its_work_takes_no_more_and_exits_with_0(
    fleet: Fleet, ends: EndCount
) -> None:
    node = fleet.start("node", slots=2, holds=True)
    fleet.ready(node)
    asking = fleet.caller.begin_to_ask(fleet.pair, wait_ms=100_000)
    eventually(lambda: len(node.accepted) == 1, "the node has work in hand")

    node.signal(signal.SIGTERM)
    eventually(lambda: fleet.status(node) == "draining", "the node drains")
    refused = fleet.caller.ask(fleet.pair)
    assert problem(refused) == (503, "NO_AVAILABLE_NODE")
    assert set(refused.json()["error"]["details"]["reasons"]) == {"not_ready"}
    node.open_gate()

    job = asking.result().json()
    assert nodes_of(job) == [node.node_id]
    assert node.wait() == 0
    eventually(lambda: fleet.status(node) == "offline", "the node is gone")
    assert len(node.accepted) == 1
    check_ends(fleet, ends, [job], refused=1)


def test_a_server_that_is_told_to_end_lets_running_jobs_finish_and_exits_with_0(
    mortal_server: ServerProcess, tmp_path: Path
) -> None:
    fleet = Fleet(mortal_server, tmp_path, new_pair())
    try:
        nodes = [fleet.start(name, slots=2, holds=True) for name in "ab"]
        fleet.ready(*nodes)
        asked = [fleet.caller.begin_to_ask(fleet.pair, wait_ms=100_000) for _ in range(3)]
        eventually(lambda: sum(len(node.accepted) for node in nodes) == 3, "all jobs are begun")

        mortal_server.signal()
        eventually(lambda: mortal_server.get("/readyz").status_code == 503, "the server drains")
        assert problem(fleet.caller.ask(fleet.pair)) == (503, "SERVER_DRAINING")
        for node in nodes:
            node.open_gate()

        jobs = [asking.result().json() for asking in asked]
        assert [job["outcome"] for job in jobs] == ["success"] * 3
        assert [len(job["attempts"]) for job in jobs] == [1] * 3
        assert mortal_server.wait() == 0
        assert "Traceback" not in mortal_server.log
        for node in nodes:
            check_that_it_was_told_and_can_leave(node)
    finally:
        fleet.end()
