"""``dragoman nodes``, ``sessions`` and ``jobs`` as an operator types them, beside a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from dragoman.errors import SessionClosed
from dragoman.sdk import talk

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("commands") / "data") as server:
        yield server


@pytest.fixture
def caller(server: ServerProcess) -> Iterator[Caller]:
    caller = Caller(server)
    yield caller
    caller.close()


@pytest.fixture
def pair() -> Pair:
    return new_pair()


def told(server: ServerProcess, *arguments: str) -> str:
    """What a command prints, once it is known to have gone well."""
    code, output, errors = run(*arguments, "--data-dir", server.data_dir)
    assert (code, errors) == (0, ""), output
    return output


def facts(server: ServerProcess, *arguments: str) -> Any:
    return json.loads(told(server, *arguments, "--json"))


# --- nodes --------------------------------------------------------------------------------------


def test_nodes_are_listed_and_shown(server: ServerProcess, pair: Pair) -> None:
    with ManualNode(server, pair, slots=3) as node:
        listed = {one["node_id"]: one for one in facts(server, "nodes", "list")}
        assert listed[node.node_id]["slots"]["total"] == 3
        shown = facts(server, "nodes", "show", node.node_id)
        assert (shown["node_id"], shown["status"]) == (node.node_id, "ready")

        header, *lines = told(server, "nodes", "list").splitlines()
        assert header.split()[:4] == ["node", "status", "used", "slots"]
        [line] = [line for line in lines if line.split()[0] == node.node_id]
        assert line.split()[1:4] == ["ready", "0", "3"]
        text = told(server, "nodes", "show", node.node_id)
        assert "0 of 3 used" in text
        assert " ".join(pair) in text


def test_a_node_is_drained_and_resumed_with_a_reason(server: ServerProcess, pair: Pair) -> None:
    with ManualNode(server, pair) as node:
        drained = facts(server, "nodes", "drain", node.node_id, "--reason", "new fans")
        assert drained["status"] == "draining"
        assert node.wait_for("node_control", command="drain")["reason"] == "new fans"

        assert facts(server, "nodes", "resume", node.node_id)["status"] == "registering"
        node.wait_for("node_control", command="resume")
        assert "status" in told(server, "nodes", "show", node.node_id)


def test_a_node_is_told_to_shut_down_and_gets_no_more_jobs(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        shown = facts(server, "nodes", "shutdown", node.node_id, "--reason", "moved")
        assert shown["status"] == "draining"
        assert node.wait_for("node_control", command="shutdown")["reason"] == "moved"
        assert caller.ask(pair).status_code == 503
    # The order was for that connection: the node that comes back is as good as any.
    with ManualNode(server, pair, node_id=node.node_id) as back:
        assert back.ack["status"] == "registering"


SCRIPT = """
import asyncio, pathlib, sys
from dragoman.sdk import Answer, Job, Node, ResourceUsage

async def translate(job: Job) -> Answer:
    while not pathlib.Path(sys.argv[2]).exists():
        await asyncio.sleep(0.01)
    return Answer(text_translated="hola", tts_audio=b"sound")

languages = sys.argv[3:]
idle = ResourceUsage(cpu_percent=1.0, mem_percent=1.0)
Node(
    sys.argv[1], work=translate, asr=languages, nmt=languages, tts=languages,
    node_id="to-be-ended", usage=lambda: idle,
).run()
"""


def test_a_node_of_the_sdk_that_is_shut_down_finishes_its_jobs_and_exits_with_0(
    server: ServerProcess, caller: Caller, pair: Pair, tmp_path: Path
) -> None:
    script, may_end = tmp_path / "node.py", tmp_path / "may-end"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, script, server.url, may_end, *pair],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            eventually(lambda: status_of(caller, "to-be-ended") == "ready", "the node is ready")
            asking = caller.begin_to_ask(pair, wait_ms=60_000)
            eventually(lambda: used_slots(caller, "to-be-ended") == 1, "it has the job")
            told(server, "nodes", "shutdown", "to-be-ended", "--reason", "the shift is over")
            may_end.touch()
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "told to shut down (the shift is over)" in out
    assert asking.result().json()["outcome"] == "success"
    assert len(asking.result().json()["attempts"]) == 1

    code, _, errors = run("nodes", "shutdown", "to-be-ended", "--url", server.url)
    assert code == 1
    assert "not connected" in errors


def status_of(caller: Caller, node_id: str) -> str | None:
    found: str | None = caller.get(f"/nodes/{node_id}").json().get("status")
    return found


def used_slots(caller: Caller, node_id: str) -> int:
    used: int = caller.get(f"/nodes/{node_id}").json()["slots"]["used"]
    return used


@pytest.mark.parametrize("command", ["show", "drain", "resume", "shutdown"])
def test_a_node_that_is_not_known_fails_with_a_sentence(
    server: ServerProcess, command: str
) -> None:
    code, output, errors = run("nodes", command, "n-none", "--url", server.url)
    assert (code, output, errors) == (1, "", "error: There is no node n-none.\n")


# --- sessions -----------------------------------------------------------------------------------


def test_sessions_are_listed_shown_and_ended(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    url = server.url.replace("http", "ws") + "/ws/session"
    with ManualNode(server, pair) as node, connect(url, compression=None) as socket:
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        socket.send(json.dumps(init))
        session_id = json.loads(socket.recv(timeout=PATIENCE_SECONDS))["session_id"]
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "hello"}))
        job = node.take()
        node.accept(job)

        listed = {one["session_id"]: one for one in facts(server, "sessions", "list")}
        assert listed[session_id]["in_flight"] == 1
        assert session_id in told(server, "sessions", "list")
        assert f"{pair[0]}" in told(server, "sessions", "show", session_id)

        assert facts(server, "sessions", "cancel", session_id)["state"] == "over"
        said = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
        assert (said["type"], said["code"]) == ("error", "SESSION_CLOSED")
        assert session_id in said["message"]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=PATIENCE_SECONDS)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert node.wait_for("job_cancel")["attempt_id"] == job["attempt_id"]

    code, _, errors = run("sessions", "show", session_id, "--url", server.url)
    assert (code, "no session" in errors) == (1, True)
    assert run("sessions", "cancel", session_id, "--url", server.url)[0] == 1


def test_a_client_of_the_sdk_learns_that_its_session_was_ended(
    server: ServerProcess, pair: Pair
) -> None:
    def speak_and_be_ended() -> None:
        with talk(server.url, src_lang=pair[0], tgt_lang=pair[1]) as session:
            session.say("hello")
            told(server, "sessions", "cancel", str(session.session_id))
            list(session.results())

    with (
        ManualNode(server, pair),
        pytest.raises(SessionClosed, match="ended by order; open a new one"),
    ):
        speak_and_be_ended()


# --- jobs ---------------------------------------------------------------------------------------


def test_jobs_are_listed_shown_and_explained_without_their_sound(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        sound = "c291bmQ="
        node.succeed(node.take(), text_translated="[b]hola[/b]", tts_audio=sound)
        job_id = asking.result().json()["job_id"]
        assert asking.result().json()["result"]["tts_audio"] == sound

        listed = {one["job_id"]: one for one in facts(server, "jobs", "list")}
        assert listed[job_id]["outcome"] == "success"
        assert len(facts(server, "jobs", "list", "--limit", "1")) == 1
        shown = told(server, "jobs", "show", job_id)
        assert "[b]hola[/b]" in shown  # as it is, not as a style
        assert facts(server, "jobs", "show", job_id)["result"]["tts_audio"] is None
        assert sound not in shown + told(server, "jobs", "list", "--json")

        explained = facts(server, "jobs", "explain", job_id)
        assert explained["attempts"][0]["chosen"] == node.node_id
        text = told(server, "jobs", "explain", job_id)
        assert f"attempt 1: pool {pair[0]}:{pair[1]}, node {node.node_id} was chosen" in text


def test_a_job_is_cancelled_once(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with ManualNode(server, pair) as node:
        job_id = caller.ask(pair).json()["job_id"]
        node.take()
        assert facts(server, "jobs", "cancel", job_id)["outcome"] == "cancelled"
        node.wait_for("job_cancel")
        code, _, errors = run("jobs", "cancel", job_id, "--url", server.url)
        assert code == 1
        assert errors.startswith("error: ")


def test_what_is_not_there_is_told_in_a_sentence(server: ServerProcess, tmp_path: Path) -> None:
    for command in ("show", "explain", "cancel"):
        code, _, errors = run("jobs", command, "j-none", "--url", server.url)
        assert (code, "There is no job j-none" in errors) == (1, True)
    code, _, errors = run("jobs", "list", "--url", "http://127.0.0.1:1")
    assert (code, "is it running?" in errors) == (1, True)
    code, _, errors = run("jobs", "list", "--data-dir", tmp_path)
    assert (code, "No server runs on" in errors) == (1, True)
    assert "no jobs" in told(server, "jobs", "list", "--tenant", "quiet")


# --- the cluster --------------------------------------------------------------------------------


def test_a_cluster_that_is_smaller_than_expected_fails_with_a_sentence(
    server: ServerProcess,
) -> None:
    url = ("--url", server.url)
    assert run("cluster", "status", *url, "--expect", "1")[0] == 0
    code, output, errors = run("cluster", "status", *url, "--expect", "2", "--json")
    assert (code, errors) == (1, "error: 1 instance is alive, 2 expected.\n")
    assert len(json.loads(output)["instances"]) == 1
