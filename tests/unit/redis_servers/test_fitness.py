"""A server is recognised by what it says about itself, whoever built it."""

from __future__ import annotations

import pytest

pytest.importorskip("redis")

from redis._parsers.helpers import parse_info

from dragoman.redis_servers import RedisServerFacts, misfit
from dragoman.redis_servers.fitness import server_facts

REDIS_7 = """\
# Server
redis_version:7.2.5
redis_mode:{mode}
os:Linux 6.1.0 x86_64
tcp_port:6379

# Memory
maxmemory:0
maxmemory_policy:noeviction

# Replication
role:{role}
"""
VALKEY_8 = """\
# Server
redis_version:7.2.4
server_name:valkey
valkey_version:8.1.1
valkey_release_stage:ga
server_mode:{mode}
os:Linux 6.1.0 x86_64
tcp_port:6379

# Memory
maxmemory:0
maxmemory_policy:noeviction

# Replication
role:{role}
"""


def facts(text: str, mode: str, role: str = "master") -> RedisServerFacts:
    told = parse_info(  # type: ignore[no-untyped-call]
        text.format(mode=mode, role=role).replace("\n", "\r\n")
    )
    return server_facts(told, 0)


@pytest.mark.parametrize("text", [REDIS_7, VALKEY_8], ids=["redis-7", "valkey-8"])
def test_a_server_of_a_cluster_is_taken_for_one(text: str) -> None:
    assert facts(text, "cluster").mode == "cluster"
    assert misfit(facts(text, "cluster"), cluster=True) is None
    refused = misfit(facts(text, "cluster"), cluster=False)
    assert refused is not None
    assert refused.remedy == "set cluster.redis_cluster = true"


@pytest.mark.parametrize("text", [REDIS_7, VALKEY_8], ids=["redis-7", "valkey-8"])
def test_a_server_by_itself_is_taken_for_one(text: str) -> None:
    assert misfit(facts(text, "standalone"), cluster=False) is None
    refused = misfit(facts(text, "standalone"), cluster=True)
    assert refused is not None
    assert refused.found == "it is not part of a Redis Cluster"


@pytest.mark.parametrize("text", [REDIS_7, VALKEY_8], ids=["redis-7", "valkey-8"])
def test_a_sentinel_and_a_replica_are_refused(text: str) -> None:
    sentinel = misfit(facts(text, "sentinel"), cluster=False)
    assert sentinel is not None
    assert sentinel.found == "it is a Sentinel"
    replica = misfit(facts(text, "standalone", "slave"), cluster=False)
    assert replica is not None
    assert replica.may_pass
