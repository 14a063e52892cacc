"""Two instances over a Redis Cluster work as they do over one Redis."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.cluster_api.sessions import open_session
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair
from tests.integration.serve.server_process import eventually
from tests.servers import RedisCluster

pytestmark = pytest.mark.redis


def test_a_job_of_one_instance_is_done_by_a_node_of_the_other(
    redis_cluster: RedisCluster, tmp_path: Path
) -> None:
    pair = new_pair()
    settings = {
        "DRAGOMAN_CLUSTER__REDIS_CLUSTER": "true",
        "DRAGOMAN_CLUSTER__KEY_PREFIX": "instances:v1",
    }
    with (
        PairOfServers(redis_cluster, tmp_path, **settings) as servers,
        ManualNode(servers.two, pair) as node,
        open_session(servers.two, pair) as session_id,
        closing(Caller(servers.one)) as caller,
    ):
        eventually(
            lambda: (
                [view["status"] for view in servers.look(servers.one, "/nodes")["items"]]
                == ["ready"]
            ),
            "the node is known",
        )
        answer = caller.begin_to_ask(pair, wait_ms=20_000)
        node.succeed(node.take(), text_translated="hola")
        assert answer.result().json()["outcome"] == "success"
        assert servers.look(servers.one, f"/sessions/{session_id}")["instance_id"] == "two"
        for server in (servers.one, servers.two):
            assert "Traceback" not in server.log
