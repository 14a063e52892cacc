"""Nodes that break the rules: they get a code, and the fleet serves on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration.live_api.manual_node import (
    Body,
    Caller,
    ManualNode,
    Socket,
    attempt_of,
    registration,
)
from tests.integration.serve.server_process import ServerProcess, environment, eventually
from websockets.exceptions import ConnectionClosed

Pair = tuple[str, str]


def dropped(server: ServerProcess, reason: str) -> float:
    """How many results were dropped for a reason so far."""
    name = f'scheduler_results_dropped_total{{reason="{reason}"}} '
    lines = server.get("/metrics").text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def close_code(act: Callable[[], object]) -> int | None:
    """Do something again and again until the socket is closed, and tell with which code."""
    try:
        while True:
            act()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that takes few messages a second, so that a flood is quickly one."""
    env = environment(DRAGOMAN_LIMITS__NODE_MESSAGES_PER_SECOND="200")
    folder = tmp_path_factory.mktemp("hostile") / "data"
    with ServerProcess(folder, "--log-level", "debug", env=env) as server:
        yield server


@pytest.mark.parametrize(
    "frame",
    [
        "not json",
        "[]",
        '{"type": "node_teapot"}',
        '{"type": "job_result", "job_id": 7}',
        '{"type": "node_heartbeat", "running": "all"}',
        '{"type": "job_ack"}',
        '{"type": "job_result", "job_id": "j", "attempt_id": "a", "success": 1}',
        "[" * 5000,
    ],
)
def test_a_malformed_frame_gets_a_code_and_the_node_works_on(
    server: ServerProcess, caller: Caller, pair: Pair, frame: str
) -> None:
    with ManualNode(server, pair) as node:
        node.socket.send(frame)
        assert node.wait_for("error")["code"] == "INVALID_MESSAGE"

        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        node.succeed(node.take())
        assert asking.result().json()["outcome"] == "success"


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("not json", "INVALID_MESSAGE"),
        ('{"type": "job_ack", "job_id": "j", "attempt_id": "a"}', "INVALID_MESSAGE"),
        ('{"type": "node_register"}', "INVALID_CAPABILITY_SCHEMA"),
        (json.dumps(registration("n", ("en",), services=[])), "INVALID_CAPABILITY_SCHEMA"),
    ],
)
def test_a_bad_first_message_gets_a_code_and_closes_the_socket(
    server: ServerProcess, first: str, code: str
) -> None:
    with Socket(server) as stranger:
        stranger.socket.send(first)

        assert stranger.hear()["code"] == code
        assert close_code(stranger.hear) == 4400


def test_a_node_cannot_answer_for_another_nodes_job(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    before = dropped(server, "wrong_node")
    with ManualNode(server, pair) as node, ManualNode(server, (pair[0],)) as liar:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        job = node.take()
        liar.succeed(job, text_translated="lies")
        eventually(lambda: dropped(server, "wrong_node") == before + 1, "the lie is dropped")
        assert caller.job(job["job_id"])["outcome"] is None
        node.succeed(job, text_translated="truth")

        assert asking.result().json()["result"]["text_translated"] == "truth"


@pytest.mark.parametrize(
    "wrong", [{"attempt_id": "a-guessed"}, {"job_id": "j-another"}], ids=["attempt", "job"]
)
def test_a_result_of_another_attempt_or_job_is_dropped(
    server: ServerProcess, caller: Caller, pair: Pair, wrong: dict[str, str]
) -> None:
    before = dropped(server, "unknown_job")
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        job = node.take()
        node.succeed({**job, **wrong}, text_translated="mixed up")
        eventually(lambda: dropped(server, "unknown_job") == before + 1, "it is dropped")
        assert caller.job(job["job_id"])["outcome"] is None
        node.succeed(job, text_translated="truth")

        assert asking.result().json()["result"]["text_translated"] == "truth"


def test_a_result_after_the_end_is_dropped(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    before = dropped(server, "late")
    with ManualNode(server, pair) as node:
        job_id = caller.ask(pair).json()["job_id"]
        job = node.take()
        caller.delete(f"/jobs/{job_id}")
        node.succeed(job, text_translated="too late")
        eventually(lambda: dropped(server, "late") == before + 1, "the late result is dropped")

    view = caller.job(job_id)
    assert (view["outcome"], view["result"]) == ("cancelled", None)


def test_a_result_that_comes_twice_changes_nothing(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        job = node.take()
        node.succeed(job, text_translated="first")
        node.succeed(job, text_translated="second")
        node.beat()
        view = asking.result().json()

        assert view["result"]["text_translated"] == "first"
        assert caller.get(f"/nodes/{node.node_id}").json()["slots"]["used"] == 0


def test_a_flood_closes_its_own_socket_and_no_other(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    nonsense = json.dumps({"type": "job_ack", "job_id": "j", "attempt_id": "a"})
    with ManualNode(server, pair) as good, ManualNode(server, (pair[0],)) as flooder:
        assert close_code(lambda: flooder.socket.send(nonsense)) == 4429

        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        good.succeed(good.take())
        assert asking.result().json()["outcome"] == "success"


def test_a_frame_that_is_too_large_closes_its_socket(server: ServerProcess, pair: Pair) -> None:
    with ManualNode(server, pair) as node:
        code = close_code(lambda: node.socket.send("x" * 5_000_000))

        # The server hangs up in the middle of the frame, so that the code may not come through.
        assert code in (1009, None)


def test_the_newer_connection_of_a_node_wins_and_the_older_cannot_speak_for_it(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with (
        ManualNode(server, pair) as older,
        ManualNode(server, pair, node_id=older.node_id) as newer,
    ):
        assert close_code(older.hear) == 4409
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        newer.succeed(newer.take())

        assert asking.result().json()["outcome"] == "success"


def test_a_node_that_breaks_off_hands_its_job_to_another(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as other:
        caller.post(f"/nodes/{other.node_id}/drain")
        with ManualNode(server, pair) as node:
            asking = caller.begin_to_ask(pair, wait_ms=60_000)
            node.accept(node.take())
            caller.post(f"/nodes/{other.node_id}/resume")
            other.wait_for("node_control", command="report")
            other.beat()
        other.succeed(other.take(), text_translated="hola")

        view = asking.result().json()
    assert view["outcome"] == "success"
    assert [attempt["node_id"] for attempt in view["attempts"]] == [node.node_id, other.node_id]
    assert view["attempts"][0]["error"]["code"] == "NODE_UNAVAILABLE"


def test_what_people_say_is_never_logged(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    said, heard = "a very private sentence", "una frase muy privada"
    with ManualNode(server, pair, slots=3) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000, text=said)
        node.succeed(node.take(), text_translated=heard)
        asking.result()
        refused(node, caller, pair, said)
        node.socket.send(json.dumps({"type": "job_result", "text_asr": heard}))
        node.wait_for("error")

    assert said not in server.log
    assert heard not in server.log
    assert "node_registered" in server.log


def refused(node: ManualNode, caller: Caller, pair: Pair, said: str) -> Body:
    """A job that fails on its node, with what was said in the node's words."""
    asking = caller.begin_to_ask(pair, wait_ms=60_000, text=said)
    job = node.take()
    error: dict[str, Any] = {"code": "BAD", "message": f"cannot say {said}", "retryable": False}
    node.say(type="job_result", success=False, error=error, **attempt_of(job))
    found: Body = asking.result().json()
    return found
