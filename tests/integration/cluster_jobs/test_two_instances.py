"""Jobs, nodes and operators at two instances that share one Redis."""

from __future__ import annotations

import signal

import httpx
import pytest
from tests.integration.live_api.manual_node import (
    Caller,
    ManualNode,
    Socket,
    attempt_of,
    registration,
)
from tests.integration.serve.server_process import ServerProcess, eventually
from websockets.exceptions import ConnectionClosed

pytestmark = pytest.mark.redis

Pair = tuple[str, str]


def ask_until_taken(caller: Caller, pair: Pair, **fields: object) -> httpx.Response:
    """Ask for a job as soon as the instance knows a node for it."""
    answers: list[httpx.Response] = []

    def taken() -> bool:
        answers.append(caller.ask(pair, **fields))
        return answers[-1].status_code == 201

    eventually(taken, "the other instance's node is known")
    return answers[-1]


def close_code(node: ManualNode) -> int | None:
    """Listen until the socket is closed; the code it is closed with."""
    try:
        while True:
            node.hear()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else None


def test_a_job_asked_for_at_one_instance_is_done_by_a_node_of_the_other(
    at_a: Caller, b: ServerProcess, pair: Pair
) -> None:
    with ManualNode(b, pair) as node:
        job_id = ask_until_taken(at_a, pair).json()["job_id"]
        job = node.take()
        assert job["job_id"] == job_id
        node.accept(job)
        node.start(job)
        eventually(lambda: at_a.job(job_id)["state"] == "RUNNING", "the job is seen to run")
        node.succeed(job, text_translated="hola")
        eventually(lambda: at_a.job(job_id)["state"] == "FINISHED", "the job ends")
        assert at_a.job(job_id)["outcome"] == "success"
        assert at_a.job(job_id)["result"]["text_translated"] == "hola"


def test_a_caller_that_waits_for_a_job_of_a_far_node_is_answered_at_its_end(
    at_a: Caller, b: ServerProcess, pair: Pair
) -> None:
    with ManualNode(b, pair, slots=2) as node:
        first = ask_until_taken(at_a, pair)
        node.succeed(node.take())
        waiting = at_a.begin_to_ask(pair, wait_ms=30_000)
        node.succeed(node.take(), text_translated="hola")
        answer = waiting.result()
        assert answer.status_code == 201
        assert answer.json()["outcome"] == "success"
        assert answer.json()["job_id"] != first.json()["job_id"]


def test_a_job_whose_instance_is_killed_ends_once(
    mortal: ServerProcess, at_mortal: Caller, b: ServerProcess, at_a: Caller, pair: Pair
) -> None:
    with ManualNode(b, pair) as node:
        job_id = ask_until_taken(at_mortal, pair).json()["job_id"]
        job = node.take()
        node.accept(job)
        mortal.signal(signal.SIGKILL)
        mortal.wait()
        node.succeed(job, text_translated="hola")
        eventually(lambda: at_a.job(job_id)["state"] == "FINISHED", "the job ends without it")
        ended = at_a.job(job_id)
        assert (ended["outcome"], len(ended["attempts"])) == ("success", 1)


def test_a_job_goes_on_when_its_node_comes_from_a_killed_instance_to_another(
    mortal: ServerProcess, a: ServerProcess, at_a: Caller, pair: Pair
) -> None:
    with ManualNode(mortal, pair) as node:
        job_id = ask_until_taken(at_a, pair).json()["job_id"]
        job = node.take()
        node.accept(job)
        mortal.signal(signal.SIGKILL)
        mortal.wait()
    with Socket(a) as again:
        again.say(**registration(node.node_id, pair, running=[attempt_of(job)]))
        assert again.wait_for("node_register_ack")["cancel"] == []
        again.say(type="job_result", success=True, **attempt_of(job))
        eventually(lambda: at_a.job(job_id)["state"] == "FINISHED", "the job ends")
        ended = at_a.job(job_id)
        assert (ended["outcome"], len(ended["attempts"])) == ("success", 1)


def test_a_job_on_a_node_that_never_comes_back_is_done_by_another(
    mortal: ServerProcess, a: ServerProcess, at_a: Caller, pair: Pair
) -> None:
    with ManualNode(mortal, pair) as gone:
        job_id = ask_until_taken(at_a, pair).json()["job_id"]
        gone.take()
        mortal.signal(signal.SIGKILL)
        mortal.wait()
    with ManualNode(a, pair) as node:
        job = node.take()
        assert job["job_id"] == job_id
        node.succeed(job)
        eventually(lambda: at_a.job(job_id)["state"] == "FINISHED", "the job ends")
        assert at_a.job(job_id)["outcome"] == "success"


def test_a_node_that_registers_at_the_other_instance_leaves_the_first(
    a: ServerProcess, b: ServerProcess, at_a: Caller, pair: Pair
) -> None:
    with ManualNode(a, pair) as old, ManualNode(b, pair, node_id=old.node_id) as new:
        assert close_code(old) == 4409
        ask_until_taken(at_a, pair)
        new.succeed(new.take())


def test_an_operator_drains_and_resumes_a_node_of_the_other_instance(
    at_a: Caller, b: ServerProcess, pair: Pair
) -> None:
    with ManualNode(b, pair) as node:
        ask_until_taken(at_a, pair)
        node.succeed(node.take())
        drained = at_a.post(f"/nodes/{node.node_id}/drain", {"reason": "to be mended"})
        assert drained.status_code == 200, drained.text
        node.wait_for("node_control", command="drain", reason="to be mended")
        eventually(lambda: at_a.ask(pair).status_code == 503, "it gets no more jobs")
        assert at_a.post(f"/nodes/{node.node_id}/resume").status_code == 200
        node.wait_for("node_control", command="report")
        node.beat()
        ask_until_taken(at_a, pair)
        node.succeed(node.take())


def test_an_instance_that_ends_in_order_leaves_its_nodes_to_the_others(
    mortal: ServerProcess, a: ServerProcess, at_a: Caller, pair: Pair
) -> None:
    with ManualNode(mortal, pair) as node:
        running = ask_until_taken(at_a, pair).json()["job_id"]
        job = node.take()
        node.accept(job)
        node.succeed(job)
        eventually(lambda: at_a.job(running)["state"] == "FINISHED", "the job ends")
        mortal.signal(signal.SIGTERM)
        assert close_code(node) == 1001
        assert mortal.wait() == 0
    with ManualNode(a, pair, node_id=node.node_id) as again:
        ask_until_taken(at_a, pair)
        again.succeed(again.take())
