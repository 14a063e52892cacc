"""What an operator of several instances sees and does: status, dead letters, metrics."""

from __future__ import annotations

import asyncio
import json
from random import Random

import pytest
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.live_api.manual_node import ManualNode, new_pair
from tests.integration.serve.server_process import eventually, run
from tests.integration.sight.scrape import scrape
from tests.servers import RedisProcess

from dragoman.ids import InstanceId
from dragoman.live.cluster import RedisPeers

pytestmark = pytest.mark.redis


def post_nonsense(redis: RedisProcess, to: str) -> None:
    """Put something into an inbox that no version of Dragoman has ever written."""

    async def post() -> None:
        peers = RedisPeers(redis.url, InstanceId("nobody"), Random(1), timeout_ms=5000)
        try:
            await peers._post(InstanceId(to), b"\xc1 nonsense")
        finally:
            await peers.close()

    asyncio.run(post())


def letters(servers: PairOfServers) -> list[str]:
    found = servers.look(servers.one, "/cluster/dead-letters")["items"]
    return [letter["letter_id"] for letter in found]


def test_the_status_command_shows_every_instance(servers: PairOfServers) -> None:
    with ManualNode(servers.two, new_pair()):

        def nodes() -> list[int]:
            code, output, errors = run("cluster", "status", "--url", servers.one.url, "--json")
            assert code == 0, errors
            return [view["nodes"] for view in json.loads(output)["instances"]]

        eventually(lambda: nodes() == [0, 1], "the node is counted where it is")

    code, output, errors = run("cluster", "status", "--data-dir", servers.one.data_dir)
    assert code == 0, errors
    assert [word for word in output.split() if word in ("one", "two", "up", "gone")] == [
        *("one", "up", "two", "up")
    ]


def test_dead_letters_are_listed_replayed_and_dropped(
    servers: PairOfServers, pair_redis: RedisProcess
) -> None:
    post_nonsense(pair_redis, "two")
    post_nonsense(pair_redis, "two")
    eventually(lambda: len(letters(servers)) == 2, "both are dead letters")
    first, second = letters(servers)
    dlq, url = ("cluster", "dlq"), ("--url", servers.one.url)

    code, output, _ = run(*dlq, "list", *url, "--json")
    assert code == 0
    shown = json.loads(output)[0]
    assert (shown["letter_id"], shown["instance_id"]) == (first, "two")
    assert (shown["reason"], shown["note"]) == ("unreadable", None)
    assert run("cluster", "status", *url)[0] == 1

    # It is as unreadable as before, and so becomes another dead letter.
    code, output, errors = run(*dlq, "replay", first, *url)
    assert (code, output) == (0, f"replayed {first}\n"), errors
    eventually(lambda: first not in letters(servers) and len(letters(servers)) == 2, "it is back")

    code, output, errors = run(*dlq, "drop", second, "no-such-letter", *url)
    assert (code, output) == (1, f"dropped {second}\n")
    assert "no dead letter no-such-letter" in errors
    assert run(*dlq, "drop", "--all", *url)[0] == 0
    assert letters(servers) == []
    assert run("cluster", "status", *url)[0] == 0


def test_letters_must_be_named(servers: PairOfServers) -> None:
    code, _, errors = run("cluster", "dlq", "drop", "--url", servers.one.url)
    assert code == 2
    assert "--all" in errors


def test_without_a_server_the_command_says_what_to_do(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("empty")
    code, _, errors = run("cluster", "status", "--data-dir", folder)
    assert (code, errors) == (
        1,
        f"error: No server runs on the data folder {folder}; name a server with --url.\n",
    )
    code, _, errors = run("cluster", "status", "--url", "http://127.0.0.1:1")
    assert code == 1
    assert "is it running?" in errors
    for address in ("nonsense", "ftp://one", "http://127.0.0.1:99999", "http://[::1"):
        code, _, errors = run("cluster", "status", "--url", address)
        assert (code, f"--url {address} is not a server's address" in errors) == (2, True)


def test_the_metrics_of_a_cluster_move(servers: PairOfServers, pair_redis: RedisProcess) -> None:
    before = scrape(servers.two).total("scheduler_dlq_total")
    post_nonsense(pair_redis, "two")

    eventually(
        lambda: scrape(servers.two).total("scheduler_dlq_total") == before + 1, "it is counted"
    )
    found = scrape(servers.two)
    assert found.total("scheduler_inbox_pending") == 0
    for operation in ("take", "renew", "cell_version"):
        assert found.total("scheduler_redis_op_seconds", op=operation) > 0
