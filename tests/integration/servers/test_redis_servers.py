"""The Redis servers that other tests rely on do what those tests assume."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.servers import RedisCluster, RedisProcess, require_program

pytestmark = pytest.mark.redis


def test_a_server_answers_and_keeps_what_it_is_told(redis_server: RedisProcess) -> None:
    assert redis_server.command("SET", "servers-test", "here") == "OK"
    assert redis_server.command("GET", "servers-test") == "here"


def test_a_paused_server_answers_nothing_until_it_is_resumed(own_redis: RedisProcess) -> None:
    own_redis.pause()
    with pytest.raises(subprocess.TimeoutExpired):
        own_redis.command("PING", timeout_seconds=0.2)
    own_redis.resume()

    assert own_redis.command("PING") == "PONG"


def test_a_restarted_server_has_the_same_address_and_no_data(own_redis: RedisProcess) -> None:
    own_redis.command("SET", "a", "1")
    url, pid = own_redis.url, own_redis.pid
    own_redis.restart_empty()

    assert (own_redis.url, own_redis.pid != pid) == (url, True)
    assert own_redis.command("DBSIZE") == "0"


def test_a_killed_server_is_gone(own_redis: RedisProcess) -> None:
    own_redis.kill()

    assert not own_redis.running
    assert own_redis.command("PING") == ""


def test_a_replica_holds_what_its_primary_holds(own_redis: RedisProcess, tmp_path: Path) -> None:
    own_redis.command("SET", "a", "1")
    replica = own_redis.start_replica(tmp_path / "replica")
    try:
        assert replica.command("GET", "a") == "1"
    finally:
        replica.stop()


def test_the_cluster_serves_every_slot_from_three_masters(redis_cluster: RedisCluster) -> None:
    answers = {redis_cluster.nodes[0].command("-c", "SET", f"key-{n}", "1") for n in range(20)}

    assert answers == {"OK"}
    assert all(node.command("DBSIZE") != "0" for node in redis_cluster.nodes)


def test_a_missing_program_skips_a_test_here_and_fails_it_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="make setup"):
        require_program("no-such-program")

    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make setup"):
        require_program("no-such-program")
