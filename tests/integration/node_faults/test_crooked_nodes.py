"""Nodes that lie, ignore what they are told, or never answer: others do the work."""

from __future__ import annotations

from concurrent.futures import Future

import httpx
import pytest
from tests.integration.live_api.manual_node import Body, attempt_of
from tests.integration.node_faults.audit import EndCount, check_ends, codes_of, counted, nodes_of
from tests.integration.node_faults.node_process import Fleet, NodeProcess
from tests.integration.serve.server_process import ServerProcess, eventually


def dropped(server: ServerProcess, reason: str) -> float:
    return counted(server, "scheduler_results_dropped_total", f'reason="{reason}"')


def ask_for(fleet: Fleet, node: NodeProcess) -> Future[httpx.Response]:
    return fleet.caller.begin_to_ask(fleet.pair, wait_ms=100_000, preferred_node_id=node.node_id)


def heard(node: NodeProcess, **fields: str) -> list[Body]:
    """The messages with these fields that a crooked node was sent."""
    return [line for line in node.lines if fields.items() <= line.items()]


@pytest.mark.parametrize(("manner", "code"), [("mute", "JOB_TIMEOUT"), ("full", "NODE_OVERLOADED")])
def test_a_job_that_a_node_does_not_take_is_done_by_another(
    fleet: Fleet, ends: EndCount, manner: str, code: str
) -> None:
    bad, good = fleet.start_crooked("bad", manner), fleet.start("good")
    fleet.ready(bad, good)

    job = ask_for(fleet, bad).result().json()

    assert nodes_of(job) == [bad.node_id, good.node_id]
    assert codes_of(job) == [code, None]
    check_ends(fleet, ends, [job])


def test_lies_about_another_nodes_job_change_nothing(fleet: Fleet, ends: EndCount) -> None:
    before = dropped(fleet.server, "wrong_node")
    honest, liar = fleet.start("honest", holds=True), fleet.start_crooked("liar", "mute")
    fleet.ready(honest, liar)
    asking = ask_for(fleet, honest)
    eventually(lambda: len(honest.accepted) == 1, "the honest node has work in hand")
    [accepted] = honest.events("Accepted")

    liar.say(type="job_result", success=True, text_translated="a lie", **attempt_of(accepted))
    error = {"code": "BROKEN", "message": "a lie", "retryable": False}
    liar.say(type="job_result", success=False, error=error, **attempt_of(accepted))
    eventually(lambda: dropped(fleet.server, "wrong_node") == before + 2, "the lies are dropped")
    honest.open_gate()

    job = asking.result().json()
    assert nodes_of(job) == [honest.node_id]
    check_ends(fleet, ends, [job])


def test_an_answer_after_a_cancel_is_dropped_and_only_then_the_slot_is_free(
    fleet: Fleet, ends: EndCount
) -> None:
    before = dropped(fleet.server, "late")
    stubborn = fleet.start_crooked("stubborn", "stubborn")
    fleet.ready(stubborn)
    asking = ask_for(fleet, stubborn)
    eventually(lambda: bool(heard(stubborn, type="job_assign")), "the node has the job")
    [assigned] = heard(stubborn, type="job_assign")
    job_id = assigned["job_id"]
    eventually(lambda: fleet.caller.job(job_id)["state"] == "ACCEPTED", "it took the job")

    fleet.caller.delete(f"/jobs/{job_id}")
    job = asking.result().json()
    assert job["outcome"] == "cancelled"
    eventually(lambda: bool(heard(stubborn, command="report")), "the node is asked to report")
    assert heard(stubborn, type="job_cancel", job_id=job_id)
    assert fleet.used_slots(stubborn) == 1, "it reports that it is still at work"

    stubborn.say(type="job_result", success=True, text_translated="late", **attempt_of(assigned))
    eventually(lambda: dropped(fleet.server, "late") == before + 1, "the answer is dropped")
    eventually(lambda: fleet.used_slots(stubborn) == 0, "the slot is free")
    check_ends(fleet, ends, [job])
