"""Nodes that are killed, paused or cut off for too long while they have work in hand."""

from __future__ import annotations

import signal
from concurrent.futures import Future

import httpx
from tests.integration.live_api.manual_node import Body
from tests.integration.node_faults.audit import EndCount, check_ends, codes_of, nodes_of
from tests.integration.node_faults.node_process import Fleet, RecordedNode
from tests.integration.node_faults.wire import Wire
from tests.integration.serve.server_process import eventually


def ask(fleet: Fleet, **fields: object) -> Future[httpx.Response]:
    return fleet.caller.begin_to_ask(fleet.pair, wait_ms=100_000, **fields)


def in_hand_of(fleet: Fleet, node: RecordedNode) -> Future[httpx.Response]:
    """A job that the node has begun and not ended."""
    asking = ask(fleet, preferred_node_id=node.node_id)
    eventually(lambda: len(node.accepted) == 1, "the node has work in hand")
    return asking


def told(asking: Future[httpx.Response]) -> Body:
    answer: Body = asking.result().json()
    return answer


def test_the_work_of_killed_nodes_is_done_by_others_and_ends_once(
    fleet: Fleet, ends: EndCount
) -> None:
    nodes = [fleet.start(name, slots=2, holds=True) for name in "abcd"]
    fleet.ready(*nodes)
    asked = [ask(fleet) for _ in range(6)]
    eventually(lambda: sum(len(node.accepted) for node in nodes) == 6, "all jobs are begun")
    by_work = sorted(nodes, key=lambda node: len(node.accepted))

    for node in by_work[2:]:
        node.signal(signal.SIGKILL)
    for node in by_work[:2]:
        node.open_gate()

    jobs = [told(asking) for asking in asked]
    assert [job["outcome"] for job in jobs] == ["success"] * 6
    killed = {node.node_id for node in by_work[2:]}
    moved = [job for job in jobs if killed & set(nodes_of(job))]
    assert len(moved) >= 3, "the busier half had at least half of the work"
    assert {code for job in moved for code in codes_of(job)} == {"NODE_UNAVAILABLE", None}
    check_ends(fleet, ends, jobs)


def test_a_job_whose_nodes_are_killed_one_after_another_fails_once(
    fleet: Fleet, ends: EndCount
) -> None:
    nodes = [fleet.start(name, holds=True) for name in "abc"]
    fleet.ready(*nodes)
    asking = ask(fleet)

    alive = list(nodes)
    while alive:
        eventually(lambda: any(node.accepted for node in alive), "a node has the job")
        holder = next(node for node in alive if node.accepted)
        holder.signal(signal.SIGKILL)
        alive.remove(holder)

    job = told(asking)
    assert (job["outcome"], job["error"]["code"]) == ("failed", "ATTEMPTS_EXHAUSTED")
    assert job["error"]["details"] == {"last": "NODE_UNAVAILABLE"}
    assert sorted(nodes_of(job)) == sorted(node.node_id for node in nodes)
    check_ends(fleet, ends, [job])


def test_a_paused_node_comes_too_late_with_its_answer_and_joins_again(
    fleet: Fleet, ends: EndCount
) -> None:
    paused, other = fleet.start("paused", holds=True), fleet.start("other")
    fleet.ready(paused, other)
    asking = in_hand_of(fleet, paused)

    paused.signal(signal.SIGSTOP)
    first = told(asking)
    eventually(lambda: fleet.status(paused) == "offline", "the silent node is offline")
    paused.open_gate()
    paused.signal(signal.SIGCONT)
    eventually(lambda: len(paused.events("Registered")) == 2, "the node joins again")
    fleet.ready(paused)
    eventually(lambda: fleet.used_slots(paused) == 0, "its slot is free again")
    second = told(ask(fleet, preferred_node_id=paused.node_id))

    assert nodes_of(first) == [paused.node_id, other.node_id]
    assert len(paused.events("Ended")) == 2, "it had an answer to the first job, too"
    assert nodes_of(second) == [paused.node_id]
    check_ends(fleet, ends, [first, second])


def test_a_node_that_was_cut_off_for_too_long_is_told_to_stop_and_joins_again(
    fleet: Fleet, ends: EndCount
) -> None:
    with Wire(fleet.server.url) as wire:
        away, other = fleet.start("away", holds=True, url=wire.url), fleet.start("other")
        fleet.ready(away, other)
        asking = in_hand_of(fleet, away)

        wire.cut()
        first = told(asking)
        wire.mend()
        eventually(lambda: bool(away.events("Ended")), "it stops what is no longer wanted")
        fleet.ready(away)
        eventually(lambda: fleet.used_slots(away) == 0, "its slot is free again")
        away.open_gate()
        second = told(ask(fleet, preferred_node_id=away.node_id))

        assert nodes_of(first) == [away.node_id, other.node_id]
        assert away.events("Ended")[0]["code"] == "JOB_CANCELLED"
        assert nodes_of(second) == [away.node_id]
        check_ends(fleet, ends, [first, second])
