"""Nodes and pools as an operator sees them, and drains."""

from __future__ import annotations

from typing import Any

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
    assert view["pools"] == [
        {
            "pair": f"{source}:{target}",
            "kinds": ["speech_to_speech", "speech_to_text", "text_to_speech", "text_to_text"],
        }
        for source in sorted(pair)
        for target in sorted(pair)
    ]
    assert view["pools_total"] == node.ack["pools"] == 16
    assert view["reason"] is None
    assert view["cell"] == node.ack["cell"]
    assert [service["type"] for service in view["services"]] == ["asr", "nmt", "tts"]
    assert view["languages"]["tts_langs"] == list(pair)
    assert view["features"] == ["emotion_detection"]
    assert view["marks"] == []
    assert view["last_seen"].endswith("Z")
    assert view["instance_id"] == server.record["instance_id"]


def test_a_node_shows_how_busy_its_machine_is_and_whether_that_leaves_it_out(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:

        def resources() -> Any:
            return caller.get(f"/nodes/{node.node_id}").json()["resources"]

        for cpu_percent in (60, 90, 90):
            node.say(
                type="node_heartbeat",
                resource_usage={"cpu_percent": cpu_percent, "mem_percent": 99},
                running=[],
            )
        eventually(lambda: resources().get("cpu", {}).get("mean_percent") == 80, "three came")
        view = caller.get(f"/nodes/{node.node_id}").json()

    assert view["resources"] == {
        "cpu": {"mean_percent": 80.0, "threshold_percent": 85.0, "over": False},
        "mem": {"mean_percent": 99.0, "threshold_percent": 85.0, "over": True},
    }
    assert view["status"] == "ready"
    assert view["reason"] == "the machine is too busy: mem at 99 % over the last heartbeats"


def test_a_node_whose_jobs_fail_says_why_it_gets_one_at_a_time(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=4) as node:
        while caller.get(f"/nodes/{node.node_id}").json()["status"] == "ready":
            assert caller.ask(pair).status_code == 201
            for _ in range(3):
                node.fail(node.take(), "BROKEN")
        told = node.wait_for("node_status", status="degraded")
        view = caller.get(f"/nodes/{node.node_id}").json()
        assert view["reason"] == told["reason"]
        assert "6 of its last 6 jobs failed or timed out" in view["reason"]

        trial = caller.ask(pair).json()
        assert problem(caller.ask(pair)) == (429, "NO_CAPACITY")
        node.succeed(node.take())
        eventually(lambda: status_of(caller, node) == "ready", "a success ends the trial")
        assert caller.job(trial["job_id"])["outcome"] == "success"


def test_a_node_in_no_pool_is_told_so(server: ServerProcess, caller: Caller) -> None:
    languages = {"asr_langs": [], "semantic_langs": ["en"], "nmt_langs": [], "tts_langs": []}
    with ManualNode(server, (), by_stage=languages) as node:
        view = caller.get(f"/nodes/{node.node_id}").json()

    assert node.ack["pools"] == 0
    assert (view["pools"], view["pools_total"]) == ([], 0)
    assert view["reason"].startswith("in no pool: it lists only semantic_langs;")
    assert "node_in_no_pool" in server.log


def test_languages_are_shown_as_they_were_sent(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    shouted = (pair[0].upper(), pair[1].upper())
    with ManualNode(server, shouted) as node:
        answer = caller.ask(pair)
        job = node.take()
        node.succeed(job)
        view = caller.get(f"/nodes/{node.node_id}").json()
        pools = [pool["pair"] for pool in caller.get("/pools", limit=1000).json()["items"]]

    assert (job["src_lang"], job["tgt_lang"]) == pair
    assert (answer.json()["src_lang"], answer.json()["tgt_lang"]) == pair
    assert view["languages"]["nmt_langs"] == list(shouted)
    assert ":".join(shouted) in pools


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


def test_what_a_node_works_on_is_told_until_it_has_ended(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=2) as node:

        def told() -> list[dict[str, Any]]:
            items: list[dict[str, Any]] = caller.get("/attempts", node_id=node.node_id).json()[
                "items"
            ]
            return items

        assert told() == []
        first, second = (caller.ask(pair).json()["job_id"] for _ in range(2))
        job = node.take()
        node.accept(job)
        node.start(job)
        node.take()

        def states() -> list[str]:
            return [one["state"] for one in told()]

        eventually(lambda: states() == ["RUNNING", "DISPATCHED"], "both are told, in their order")
        items = told()
        assert [one["job_id"] for one in items] == [first, second]
        assert items[0]["attempt_id"] == job["attempt_id"]
        assert items[0]["pair"] == ":".join(pair)
        node.succeed(job, text_translated="hola")
        eventually(lambda: states() == ["DISPATCHED"], "the one that ended is told no more")
    assert problem(caller.get("/attempts", node_id="nosuch")) == (404, "NOT_FOUND")
