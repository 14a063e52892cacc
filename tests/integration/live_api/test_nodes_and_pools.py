"""Nodes and pools as an operator sees them, and drains."""

from __future__ import annotations

from tests.integration.live_api.manual_node import Caller, ManualNode, problem
from tests.integration.serve.server_process import ServerProcess, eventually

Pair = tuple[str, str]


def status_of(caller: Caller, node: ManualNode) -> str:
    return str(caller.get(f"/nodes/{node.node_id}").json()["status"])


def test_a_node_is_shown_with_its_slots_and_pools(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=3, features=["emotion_detection"]) as node:
        caller.ask(pair)
        view = caller.get(f"/nodes/{node.node_id}").json()

    assert view["node_id"] == node.node_id
    assert view["status"] == "ready"
    assert view["slots"] == {"total": 3, "used": 1, "free": 2}
    assert view["pools"] == sorted(f"{source}:{target}" for source in pair for target in pair)
    assert view["cell"] == node.ack["cell"]
    assert [service["type"] for service in view["services"]] == ["asr", "nmt", "tts"]
    assert view["languages"]["tts_langs"] == list(pair)
    assert view["features"] == ["emotion_detection"]
    assert view["marks"] == []
    assert view["last_seen"].endswith("Z")
    assert view["instance_id"] == server.record["instance_id"]


def test_a_node_that_left_is_offline(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with ManualNode(server, pair) as node:
        pass

    eventually(lambda: status_of(caller, node) == "offline", "it is offline")
    answer = caller.ask(pair)
    assert problem(answer) == (503, "NO_AVAILABLE_NODE")
    assert answer.json()["error"]["details"]["reasons"]["not_ready"] >= 1


def test_a_name_with_a_slash_is_a_name(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with ManualNode(server, pair, node_id="rack/7") as node:
        assert status_of(caller, node) == "ready"
        assert caller.post("/nodes/rack/7/drain").json()["status"] == "draining"
        assert caller.post("/nodes/rack/7/resume").json()["node_id"] == "rack/7"


def test_the_list_of_nodes_is_paged_without_gaps(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with (
        ManualNode(server, pair) as one,
        ManualNode(server, pair) as two,
        ManualNode(server, pair) as three,
    ):
        listed, cursor = [], None
        while True:
            query = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
            page = caller.get("/nodes", **query).json()
            assert len(page["items"]) <= 2
            listed += [node["node_id"] for node in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break

    assert len(listed) == len(set(listed))
    assert {one.node_id, two.node_id, three.node_id} <= set(listed)
    assert problem(caller.get("/nodes", limit=0)) == (422, "INVALID_MESSAGE")


def test_a_pool_counts_its_nodes_and_the_slots_of_the_ready_ones(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=3) as node, ManualNode(server, pair, slots=2) as drained:
        caller.post(f"/nodes/{drained.node_id}/drain")
        caller.ask(pair)
        pools = {pool["pair"]: pool for pool in caller.get("/pools", limit=1000).json()["items"]}

    pool = pools[":".join(pair)]
    assert (pool["nodes"], pool["ready"]) == (2, 1)
    assert pool["slots"] == {"total": 3, "free": 2}
    assert pool["shards"] == [{"cell": node.ack["cell"], "nodes": 2}]


def test_the_list_of_pools_is_paged(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with ManualNode(server, pair):
        first = caller.get("/pools", limit=3).json()
        second = caller.get("/pools", limit=1000, cursor=first["next"]).json()

    pairs = [pool["pair"] for pool in first["items"] + second["items"]]
    assert len(first["items"]) == 3
    assert len(pairs) == len(set(pairs)) >= 4


def test_a_drained_node_gets_nothing_also_after_it_reconnects(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        drained = caller.post(f"/nodes/{node.node_id}/drain", {"reason": "new disk"})
        assert drained.json()["status"] == "draining"
        assert node.wait_for("node_control", command="drain")["reason"] == "new disk"
        assert problem(caller.ask(pair)) == (503, "NO_AVAILABLE_NODE")

    with ManualNode(server, pair, node_id=node.node_id) as back:
        assert back.ack["status"] == "draining"
        assert problem(caller.ask(pair)) == (503, "NO_AVAILABLE_NODE")

        assert caller.post(f"/nodes/{node.node_id}/resume").json()["status"] == "registering"
        back.wait_for("node_control", command="report")
        back.beat()
        back.wait_for("node_status", status="ready")
        assert caller.ask(pair).status_code == 201


def test_a_drain_lets_running_jobs_finish(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        job = node.take()
        caller.post(f"/nodes/{node.node_id}/drain")
        node.succeed(job, text_translated="hola")

        assert asking.result().json()["outcome"] == "success"
