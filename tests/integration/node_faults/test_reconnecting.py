"""Nodes whose connection breaks, or is taken over, while they work on."""

from __future__ import annotations

import pytest
from tests.integration.node_faults.audit import EndCount, check_ends, nodes_of
from tests.integration.node_faults.node_process import Fleet
from tests.integration.node_faults.wire import Wire
from tests.integration.serve.server_process import ServerProcess, eventually


@pytest.fixture
def server(patient_server: ServerProcess) -> ServerProcess:
    return patient_server


def test_a_node_that_reconnects_in_time_goes_on_with_its_work(fleet: Fleet, ends: EndCount) -> None:
    with Wire(fleet.server.url) as wire:
        node, spare = fleet.start("node", holds=True, url=wire.url), fleet.start("spare")
        fleet.ready(node, spare)
        asking = fleet.caller.begin_to_ask(
            fleet.pair, wait_ms=100_000, preferred_node_id=node.node_id
        )
        eventually(lambda: len(node.accepted) == 1, "the node has work in hand")

        wire.cut()
        wire.mend()
        eventually(lambda: len(node.events("Registered")) == 2, "the node is back")
        node.open_gate()

        job = asking.result().json()
        assert nodes_of(job) == [node.node_id], "the work was not done twice"
        assert not spare.accepted
        check_ends(fleet, ends, [job])
        assert fleet.used_slots(node) == 0


def test_a_result_that_was_ready_while_the_node_was_away_still_counts(
    fleet: Fleet, ends: EndCount
) -> None:
    with Wire(fleet.server.url) as wire:
        node, spare = fleet.start("node", holds=True, url=wire.url), fleet.start("spare")
        fleet.ready(node, spare)
        asking = fleet.caller.begin_to_ask(
            fleet.pair, wait_ms=100_000, preferred_node_id=node.node_id
        )
        eventually(lambda: len(node.accepted) == 1, "the node has work in hand")

        wire.cut()
        eventually(lambda: fleet.status(node) == "offline", "the server misses the node")
        node.open_gate()
        eventually(lambda: len(node.done) == 1, "the work is done")
        wire.mend()

        job = asking.result().json()
        assert nodes_of(job) == [node.node_id]
        assert not spare.accepted
        check_ends(fleet, ends, [job])


def test_the_newer_process_of_a_node_takes_over_and_the_older_one_stops(
    fleet: Fleet, ends: EndCount
) -> None:
    older = fleet.start_command("older")
    fleet.ready(older)
    newer = fleet.start("newer", node_id=older.node_id)

    assert older.wait() == 1
    assert "another process has registered under the same node_id" in older.errors
    assert "Traceback" not in older.errors
    fleet.ready(newer)
    job = fleet.caller.ask(fleet.pair, wait_ms=100_000).json()
    assert nodes_of(job) == [newer.node_id]
    check_ends(fleet, ends, [job])


def test_the_work_of_a_superseded_process_is_done_again_elsewhere(
    fleet: Fleet, ends: EndCount
) -> None:
    older, spare = fleet.start("older", holds=True), fleet.start("spare")
    fleet.ready(older, spare)
    asking = fleet.caller.begin_to_ask(fleet.pair, wait_ms=100_000, preferred_node_id=older.node_id)
    eventually(lambda: len(older.accepted) == 1, "the older process has work in hand")

    newer = fleet.start("newer", node_id=older.node_id)
    job = asking.result().json()

    assert nodes_of(job) == [older.node_id, spare.node_id]
    assert older.wait() != 0
    assert not older.done
    assert not newer.accepted
    check_ends(fleet, ends, [job])
