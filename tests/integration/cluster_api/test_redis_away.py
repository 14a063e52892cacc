"""While Redis is away no unstored work is promised, and no caller is refused for good."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.cluster_api.sessions import open_session
from tests.integration.live_api.manual_node import (
    Caller,
    ManualNode,
    Socket,
    new_pair,
    problem,
    registration,
)
from tests.integration.serve.server_process import PATIENCE_SECONDS, eventually
from tests.integration.sight.scrape import scrape
from tests.servers import RedisProcess
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

pytestmark = pytest.mark.redis

TRY_AGAIN_SOON = 1011
"""Not 1008, which a node takes for a fleet that is full."""


def test_callers_and_nodes_are_asked_to_come_back_soon(
    own_servers: PairOfServers, own_redis: RedisProcess
) -> None:
    pair = new_pair()
    with (
        closing(Caller(own_servers.one)) as caller,
        ManualNode(own_servers.two, pair) as node,
        open_session(own_servers.one, pair),
    ):
        eventually(
            lambda: [view["status"] for view in caller.get("/nodes").json()["items"]] == ["ready"],
            "the node is known at the other instance",
        )

        own_redis.pause()
        refused = caller.ask(pair)
        assert problem(refused) == (503, "SCHEDULER_DEPENDENCY_DOWN")
        assert int(refused.headers["Retry-After"]) >= 1
        assert own_servers.one.get("/readyz").status_code == 503
        with Socket(own_servers.one) as newcomer:
            newcomer.say(**registration("newcomer", pair))
            assert newcomer.hear()["code"] == "SCHEDULER_DEPENDENCY_DOWN"
            with pytest.raises(ConnectionClosed) as closed:
                json.loads(newcomer.socket.recv(timeout=PATIENCE_SECONDS))
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == TRY_AGAIN_SOON

        own_redis.resume()
        eventually(
            lambda: own_servers.one.get("/readyz").status_code == 200, "the instance is ready again"
        )
        answer = caller.begin_to_ask(pair, wait_ms=20_000)
        node.succeed(node.take(), text_translated="hola")
        assert answer.result().json()["outcome"] == "success"


def test_a_caller_that_waits_for_a_job_that_redis_lost_is_told_to_send_it_again(
    own_servers: PairOfServers, own_redis: RedisProcess
) -> None:
    pair = new_pair()
    with closing(Caller(own_servers.one)) as caller, ManualNode(own_servers.one, pair) as node:
        answer = caller.begin_to_ask(pair, wait_ms=30_000)
        job = node.take()
        own_redis.flush()
        node.succeed(job)

        lost = answer.result()
        assert problem(lost) == (503, "SCHEDULER_DEPENDENCY_DOWN")
        assert "send it again" in lost.json()["error"]["message"]
        assert lost.json()["error"]["details"]["job_id"] == job["job_id"]


def test_a_caller_and_the_log_are_told_that_redis_has_no_memory_left(
    own_servers: PairOfServers, own_redis: RedisProcess
) -> None:
    pair = new_pair()
    with closing(Caller(own_servers.one)) as caller, ManualNode(own_servers.one, pair) as node:
        own_redis.command("CONFIG", "SET", "maxmemory", "900kb")
        refused = caller.ask(pair)
        assert problem(refused) == (503, "SCHEDULER_DEPENDENCY_DOWN")
        assert "has no memory left" in refused.json()["error"]["message"]
        assert "maxmemory" in refused.json()["error"]["message"]
        assert int(refused.headers["Retry-After"]) >= 1
        caller.ask(pair)
        written = [line for line in own_servers.one.log.splitlines() if "job_not_stored" in line]
        assert len(written) == 1
        assert "has no memory left" in written[0]
        # Full is not down: a load balancer must not take every instance away for it.
        ready = own_servers.one.get("/readyz")
        assert (ready.status_code, ready.json()["reasons"]) == (200, [])
        assert ready.json()["warnings"] == ["Redis has no memory left and refuses new work"]
        assert scrape(own_servers.one).total("scheduler_redis_full_total") >= 2
        eventually(
            lambda: (
                "DragomanRedisFull"
                in [one["name"] for one in own_servers.look(own_servers.one, "/alerts")["items"]]
            ),
            "the server would alert of it",
        )

        own_redis.command("CONFIG", "SET", "maxmemory", "0")
        answer = caller.begin_to_ask(pair, wait_ms=20_000)
        node.succeed(node.take(), text_translated="hola")
        assert answer.result().json()["outcome"] == "success"


def test_an_utterance_that_redis_had_no_memory_for_is_refused_with_the_same_reason(
    own_redis: RedisProcess, tmp_path: Path
) -> None:
    pair = new_pair()
    # Where tenants are limited, an utterance is counted before it looks for a slot.
    limit = {"DRAGOMAN_LIMITS__MAX_INFLIGHT_PER_TENANT": "10"}
    with (
        PairOfServers(own_redis, tmp_path, **limit) as servers,
        connect(servers.one.url.replace("http", "ws") + "/ws/session") as socket,
    ):
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        socket.send(json.dumps(init))
        assert json.loads(socket.recv(PATIENCE_SECONDS))["type"] == "session_init_ack"
        own_redis.command("CONFIG", "SET", "maxmemory", "900kb")
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "hello"}))
        eventually(lambda: "job_not_stored" in servers.one.log, "the log says why")
        own_redis.command("CONFIG", "SET", "maxmemory", "0")
        said: list[dict[str, Any]] = []
        while not said or said[-1]["type"] != "missing_result":
            said.append(json.loads(socket.recv(PATIENCE_SECONDS)))
        *_, refused, missing = said
        assert (refused["type"], refused["code"]) == ("error", "SCHEDULER_DEPENDENCY_DOWN")
        assert "has no memory left" in refused["message"]
        assert missing["reason"] == "SCHEDULER_DEPENDENCY_DOWN"
