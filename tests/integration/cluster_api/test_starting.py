"""An instance starts with a Redis that will do, or says in one sentence what is wrong."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)
from tests.servers import RedisCluster, RedisProcess

pytestmark = pytest.mark.redis


def cluster_environment(url: str, **settings: str) -> dict[str, str]:
    return environment(
        DRAGOMAN_CLUSTER__ENABLED="true",
        DRAGOMAN_CLUSTER__REDIS_URL=url,
        DRAGOMAN_CLUSTER__PRESENCE_TTL_SECONDS="3",
        DRAGOMAN_LAB__ENABLED="false",
        **settings,
    )


def refused(tmp_path: Path, url: str, **settings: str) -> tuple[int, str]:
    """The exit code and the last words of an instance that does not start."""
    folder = ("--data-dir", tmp_path / "data", "--port", "0")
    code, output, errors = run("serve", *folder, env=cluster_environment(url, **settings))
    assert "Traceback" not in errors
    assert "ready" not in output
    return code, errors.splitlines()[-1]


def test_a_wrong_password_is_a_wrong_setting(tmp_path: Path, own_redis: RedisProcess) -> None:
    own_redis.command("CONFIG", "SET", "requirepass", "right")

    for url in (own_redis.url, own_redis.url.replace("://", "://:wrong@")):
        code, words = refused(tmp_path, url)
        assert code == 2
        assert "refuses the login" in words
        assert "cluster.redis_url" in words
        assert "wrong@" not in words


def test_a_plain_server_is_not_taken_for_a_cluster_nor_the_other_way_round(
    tmp_path: Path, redis_server: RedisProcess, redis_cluster: RedisCluster
) -> None:
    code, words = refused(tmp_path, redis_server.url, DRAGOMAN_CLUSTER__REDIS_CLUSTER="true")
    assert (code, "set cluster.redis_cluster = false" in words) == (1, True)

    code, words = refused(tmp_path, redis_cluster.url)
    assert (code, "set cluster.redis_cluster = true" in words) == (1, True)


def test_an_instance_does_not_start_beside_one_of_another_data_model(
    tmp_path: Path, own_redis: RedisProcess
) -> None:
    own_redis.command("HSET", "dragoman:v1:{instances}:known", "older", "life-1")
    record = ("standing", "up", "until_ms", "9999999999999")
    own_redis.command("HSET", "dragoman:v1:{i:older}:record", *record)

    code, words = refused(tmp_path, own_redis.url)

    assert code == 1
    assert "another version of Dragoman are present: older" in words
    assert "drain and stop" in words


def test_a_user_who_may_not_load_functions_is_told_which_right_is_missing(
    tmp_path: Path, own_redis: RedisProcess
) -> None:
    own_redis.command("ACL", "SETUSER", "poor", "on", ">word", "~*", "&*", "+@all", "-function")

    code, words = refused(tmp_path, own_redis.url.replace("://", "://poor:word@"))

    assert code == 1
    assert "FUNCTION LOAD and FCALL" in words
    assert "word@" not in words


def test_a_database_that_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    code, words = refused(tmp_path, "redis://127.0.0.1:1/live")
    assert code == 2
    assert "cluster.redis_url" in words
    assert "by its number" in words


def test_an_instance_waits_for_a_redis_that_is_not_there_yet(
    tmp_path: Path, own_redis: RedisProcess
) -> None:
    own_redis.kill()
    log = tmp_path / "data.log"
    with ThreadPoolExecutor() as starting:
        begun = starting.submit(
            ServerProcess, tmp_path / "data", env=cluster_environment(own_redis.url)
        )
        eventually(
            lambda: log.exists() and "waiting_for_redis" in log.read_text(), "it says what it lacks"
        )
        assert not begun.done()
        own_redis.restart_empty()
        with begun.result() as server:
            assert server.get("/readyz").status_code == 200


def test_a_signal_ends_an_instance_that_waits(tmp_path: Path, own_redis: RedisProcess) -> None:
    own_redis.kill()
    command = (DRAGOMAN, "serve", "--data-dir", tmp_path / "data", "--port", "0")
    env = cluster_environment(own_redis.url)
    with Popen(command, env=env, stderr=PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert "cannot be reached" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(PATIENCE_SECONDS) == 0
        assert "Traceback" not in waiting.stderr.read()


def test_an_instance_whose_name_was_taken_is_no_longer_ready(
    tmp_path: Path, redis_server: RedisProcess
) -> None:
    env = cluster_environment(
        redis_server.url,
        DRAGOMAN_CLUSTER__INSTANCE_ID="twin",
        DRAGOMAN_CLUSTER__KEY_PREFIX="names:v1",
    )
    with (
        ServerProcess(tmp_path / "first", env=env) as first,
        ServerProcess(tmp_path / "second", env=env) as second,
    ):
        eventually(lambda: first.get("/readyz").status_code == 503, "the first gives way")
        assert first.get("/readyz").json()["reasons"] == ["the cluster is down"]
        assert "instance_id of its own" in first.log
        assert second.get("/readyz").status_code == 200


def test_instances_with_settings_that_do_not_go_together_say_which(
    tmp_path: Path, own_redis: RedisProcess
) -> None:
    smaller = {"DRAGOMAN_SCHEDULER__POOLS__CELL_SIZE": "50"}
    with PairOfServers(own_redis, tmp_path, None, smaller) as servers:
        one, two = servers.one, servers.two
        said = "scheduler.pools.cell_size is 100 at one and 50 at two"
        eventually(lambda: said in str(one.get("/readyz").json()["warnings"]), "one says so")
        assert one.get("/readyz").status_code == 200
        assert said in servers.look(one, "/cluster")["disagreement"]
        code, _, errors = run("cluster", "status", "--url", one.url)
        assert (code, said in errors) == (0, True)
        two.end()
        eventually(lambda: one.get("/readyz").json()["warnings"] == [], "one is alone")
