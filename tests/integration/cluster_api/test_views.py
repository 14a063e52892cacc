"""Whichever instance is asked, it shows the nodes, sessions and jobs of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.cluster_api.sessions import open_session
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair, problem
from tests.integration.serve.server_process import ServerProcess, environment, eventually
from tests.servers import RedisProcess
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

pytestmark = pytest.mark.redis

Pair = tuple[str, str]


@pytest.fixture
def pair() -> Pair:
    return new_pair()


@pytest.fixture
def at_one(servers: PairOfServers) -> Iterator[Caller]:
    caller = Caller(servers.one)
    yield caller
    caller.close()


@pytest.fixture
def at_two(servers: PairOfServers) -> Iterator[Caller]:
    caller = Caller(servers.two)
    yield caller
    caller.close()


def status_of(caller: Caller, node_id: str) -> str:
    answer = caller.get(f"/nodes/{node_id}")
    return str(answer.json()["status"]) if answer.status_code == 200 else "unknown"


def test_a_node_is_shown_and_drained_at_an_instance_it_is_not_connected_to(
    servers: PairOfServers, at_one: Caller, at_two: Caller, pair: Pair
) -> None:
    with ManualNode(servers.two, pair, slots=3) as node:
        eventually(lambda: status_of(at_one, node.node_id) == "ready", "the node is known")
        assert at_one.get(f"/nodes/{node.node_id}").json() | {"last_seen": ""} == at_two.get(
            f"/nodes/{node.node_id}"
        ).json() | {"last_seen": ""}
        listed = {view["node_id"]: view for view in at_one.get("/nodes").json()["items"]}
        assert listed[node.node_id]["instance_id"] == "two"
        assert listed[node.node_id]["slots"] == {"total": 3, "used": 0, "free": 3}

        drained = at_one.post(f"/nodes/{node.node_id}/drain", {"reason": "moving"})
        assert (drained.status_code, drained.json()["status"]) == (200, "draining")
        assert node.wait_for("node_control", command="drain")["reason"] == "moving"
        eventually(lambda: status_of(at_one, node.node_id) == "draining", "it drains")
        resumed = at_one.post(f"/nodes/{node.node_id}/resume")
        assert resumed.status_code == 200
        assert resumed.json()["status"] != "draining"
        node.wait_for("node_control", command="resume")
        node.beat()
        eventually(lambda: status_of(at_one, node.node_id) == "ready", "it is back")


def test_a_pool_has_the_nodes_of_all_instances(
    servers: PairOfServers, at_one: Caller, at_two: Caller, pair: Pair
) -> None:
    def shown(caller: Caller) -> object:
        items = caller.get("/pools", limit=1000).json()["items"]
        found = [pool for pool in items if pool["pair"] == ":".join(pair)]
        return found and (found[0]["ready"], found[0]["slots"])

    with ManualNode(servers.one, pair, slots=2), ManualNode(servers.two, pair, slots=3):
        wanted = (2, {"total": 5, "free": 5})
        eventually(lambda: shown(at_one) == wanted == shown(at_two), "both see the whole pool")


def test_sessions_of_all_instances_are_listed_page_by_page(
    servers: PairOfServers, at_one: Caller, pair: Pair
) -> None:
    with (
        open_session(servers.one, pair) as here,
        open_session(servers.two, pair) as there,
        open_session(servers.two, pair) as there_too,
    ):
        wanted = {here: "one", there: "two", there_too: "two"}

        def listed() -> dict[str, str]:
            found: dict[str, str] = {}
            cursor = None
            while True:
                query = {"limit": 1} if cursor is None else {"limit": 1, "cursor": cursor}
                page = at_one.get("/sessions", **query).json()
                assert page["unreachable"] == []
                found |= {view["session_id"]: view["instance_id"] for view in page["items"]}
                cursor = page["next"]
                if cursor is None:
                    return found

        eventually(lambda: listed().items() >= wanted.items(), "all three are listed")
        assert list(listed()) == sorted(listed())
        view = at_one.get(f"/sessions/{there}").json()
        assert (view["instance_id"], view["state"]) == ("two", "active")
        assert (view["src_lang"], view["tgt_langs"]) == (pair[0], [pair[1]])


def test_a_timeline_is_shown_at_an_instance_that_delivered_none_of_it(
    servers: PairOfServers, at_one: Caller, pair: Pair
) -> None:
    url = servers.two.url.replace("http", "ws") + "/ws/session"
    with ManualNode(servers.two, pair) as node, connect(url, compression=None) as socket:
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        socket.send(json.dumps(init))
        session_id = json.loads(socket.recv(timeout=30))["session_id"]
        assert at_one.get(f"/sessions/{session_id}/timeline").json()["items"] == []
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "hello"}))
        job = node.take()
        node.accept(job)
        node.succeed(job, text_translated="hola")
        while json.loads(socket.recv(timeout=30))["type"] != "translation_result":
            pass
        shown = at_one.get(f"/sessions/{session_id}/timeline").json()
        (item,) = shown["items"]
        assert (item["instance_id"], item["node_id"]) == ("two", node.node_id)
        assert shown["unreachable"] == []


def test_sessions_of_an_instance_that_has_just_come_are_not_missed(
    own_redis: RedisProcess, tmp_path: Path, pair: Pair
) -> None:
    settings = {"DRAGOMAN_CLUSTER__RECONCILE_SECONDS": "600"}
    with (
        PairOfServers(own_redis, tmp_path, **settings) as servers,
        open_session(servers.one, pair) as at_one,
        open_session(servers.two, pair) as at_two,
    ):
        for server in (servers.one, servers.two):
            listed = servers.look(server, "/sessions")["items"]
            assert {view["session_id"] for view in listed} == {at_one, at_two}
            for session_id in (at_one, at_two):
                assert servers.look(server, f"/sessions/{session_id}")["state"] == "active"


def test_an_instance_that_is_asked_as_another_says_so(servers: PairOfServers) -> None:
    caller = Caller(servers.one)
    caller._http.headers["Dragoman-Instance"] = "two"

    refused = caller.get("/sessions")

    assert problem(refused) == (404, "NOT_FOUND")
    assert "one answers" in refused.json()["error"]["message"]
    caller.close()


def test_stats_are_of_all_instances(
    servers: PairOfServers, at_one: Caller, at_two: Caller, pair: Pair
) -> None:
    before = at_one.get("/stats").json()["jobs"]["success"]
    with (
        ManualNode(servers.one, new_pair(), slots=2),
        ManualNode(servers.two, pair, slots=3) as node,
        open_session(servers.one, pair),
        open_session(servers.two, pair),
    ):
        answer = at_two.begin_to_ask(pair, wait_ms=20_000)
        node.succeed(node.take(), text_translated="hola")
        assert answer.result().json()["outcome"] == "success"

        def whole(caller: Caller) -> bool:
            stats = caller.get("/stats").json()
            return bool(
                stats["sessions"]["language_usage"].get(pair[0], {}).get("as_source") == 2
                and stats["sessions"]["active"] >= 2
                and stats["nodes"]["by_status"]["ready"] == 2
                and stats["nodes"]["slots"]["total"] == 5
                and stats["jobs"]["success"] == before + 1
            )

        eventually(lambda: whole(at_one) and whole(at_two), "both count everything")


def test_a_job_is_explained_by_the_instance_that_decided_it(
    servers: PairOfServers, at_one: Caller, at_two: Caller, pair: Pair
) -> None:
    with ManualNode(servers.two, pair) as node:
        job_id = at_two.ask(pair).json()["job_id"]

        def explained() -> bool:
            return at_one.get(f"/jobs/{job_id}/explain").status_code == 200

        eventually(explained, "the other instance is asked")
        found = at_one.get(f"/jobs/{job_id}/explain").json()
        assert found == at_two.get(f"/jobs/{job_id}/explain").json()
        assert found["attempts"][0]["chosen"] == node.node_id


def test_what_a_killed_instance_knew_is_answered_in_words(
    own_servers: PairOfServers, pair: Pair
) -> None:
    at_two, at_one = Caller(own_servers.two), Caller(own_servers.one)
    with ManualNode(own_servers.one, pair), open_session(own_servers.two, pair) as session_id:
        eventually(lambda: at_two.ask(pair).status_code != 409, "the node is known there")
        job_id = at_two.get("/jobs").json()["items"][0]["job_id"]
        own_servers.two.end()

        def explanation() -> str:
            return str(at_one.get(f"/jobs/{job_id}/explain").json()["error"]["message"])

        assert problem(at_one.get(f"/jobs/{job_id}/explain")) == (404, "NOT_FOUND")
        eventually(lambda: "instance two, which" in explanation(), "it says who took it along")

        view = at_one.get(f"/sessions/{session_id}").json()
        assert (view["instance_id"], view["state"]) == ("two", "disconnected")
        assert view["tgt_langs"] == [pair[1]]
    at_one.close()
    at_two.close()


def test_an_instance_that_is_alone_shows_itself(
    tmp_path_factory: pytest.TempPathFactory, pair: Pair
) -> None:
    env = environment(DRAGOMAN_CLUSTER__INSTANCE_ID="solo", DRAGOMAN_LAB__ENABLED="false")
    with ServerProcess(tmp_path_factory.mktemp("alone") / "data", env=env) as server:
        caller = Caller(server)
        with ManualNode(server, pair), open_session(server, pair):
            (shown,) = caller.get("/cluster").json()["instances"]
        assert (shown["instance_id"], shown["alive"]) == ("solo", True)
        assert (shown["nodes"], shown["sessions"], shown["inbox_length"]) == (1, 1, 0)
        assert caller.get("/cluster/dead-letters").json() == {"items": [], "next": None}
        assert problem(caller.delete("/cluster/dead-letters/none")) == (404, "NOT_FOUND")
        caller.close()


def test_a_job_cancelled_at_another_instance_keeps_its_attempt(
    servers: PairOfServers, at_one: Caller, at_two: Caller, pair: Pair
) -> None:
    with ManualNode(servers.one, pair) as node:
        job_id = at_one.ask(pair).json()["job_id"]
        job = node.take()
        cancelled = at_two.delete(f"/jobs/{job_id}")
        assert cancelled.json()["attempts"][0]["state"] == "CANCELLING"
        node.fail(node.wait_for("job_cancel"), "JOB_CANCELLED")

        for caller in (at_one, at_two):
            found = caller.job(job_id)
            assert (found["node_id"], found["outcome"]) == (node.node_id, "cancelled")
            [attempt] = found["attempts"]
            assert (attempt["attempt_id"], attempt["outcome"]) == (job["attempt_id"], "cancelled")


def test_a_node_is_shut_down_at_an_instance_it_is_not_connected_to(
    servers: PairOfServers, at_one: Caller, pair: Pair
) -> None:
    with ManualNode(servers.two, pair) as node:
        eventually(lambda: status_of(at_one, node.node_id) == "ready", "the node is known")
        order = at_one.post(f"/nodes/{node.node_id}/shutdown", {"reason": "moving"})
        assert order.status_code == 200
        assert node.wait_for("node_control", command="shutdown")["reason"] == "moving"
        eventually(lambda: status_of(at_one, node.node_id) == "draining", "it gets no more jobs")


def test_a_session_is_ended_at_an_instance_that_does_not_have_it(
    servers: PairOfServers, at_one: Caller, at_two: Caller, pair: Pair
) -> None:
    with open_session(servers.two, pair) as session_id:
        answers = [at_one.delete(f"/sessions/{session_id}")]
        while answers[-1].status_code == 503 and len(answers) < 10:
            # The other instance was too busy to answer in time; it may have ended it all the same.
            answers.append(at_one.delete(f"/sessions/{session_id}"))
        ended = answers[-1]
        if ended.status_code == 404:
            assert len(answers) > 1, ended.text
        else:
            assert (ended.status_code, ended.json()["state"]) == (200, "over")
        for caller in (at_one, at_two):
            eventually(
                lambda caller=caller: (  # type: ignore[misc]
                    problem(caller.get(f"/sessions/{session_id}")) == (404, "NOT_FOUND")
                ),
                "the session is gone",
            )
        assert problem(at_one.delete(f"/sessions/{session_id}")) == (404, "NOT_FOUND")


def test_a_session_whose_instance_was_killed_can_be_ended(
    own_servers: PairOfServers, pair: Pair
) -> None:
    caller = Caller(own_servers.one)
    with suppress(ConnectionClosed), open_session(own_servers.two, pair) as session_id:
        own_servers.two.end()
        eventually(
            lambda: caller.delete(f"/sessions/{session_id}").status_code == 200,
            "the record of the session is forgotten",
        )
        assert problem(caller.get(f"/sessions/{session_id}")) == (404, "NOT_FOUND")
    caller.close()
