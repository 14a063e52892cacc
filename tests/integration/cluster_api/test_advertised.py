"""Instances find each other where each says that it is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cluster_api.pair_of_servers import NAMES, PairOfServers
from tests.servers import RedisProcess

pytestmark = pytest.mark.redis


def test_an_instance_is_asked_where_it_says_and_nowhere_else(
    tmp_path: Path, redis_server: RedisProcess
) -> None:
    settings = {
        "DRAGOMAN_CLUSTER__KEY_PREFIX": "advertised",
        "DRAGOMAN_CLUSTER__ADVERTISE_HOST": "nowhere.invalid",
    }
    with PairOfServers(redis_server, tmp_path, **settings) as servers:
        assert servers.look(servers.one, "/sessions")["unreachable"] == [NAMES[1]]
