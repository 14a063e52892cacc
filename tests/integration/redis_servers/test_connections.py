"""Every ask is answered with its own reply or refused in time, whatever happens to the server."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.servers import RedisCluster, RedisProcess
from tests.servers.programs import free_port

from dragoman.errors import DependencyDown
from dragoman.redis_servers import Plain, RedisPipeline, Reply, open_servers

pytestmark = pytest.mark.redis

TIMEOUT_MS = 300


def say(word: str) -> Plain:
    return Plain(("ECHO", word))


def talk(
    url: str,
    conversation: Callable[[RedisPipeline], Coroutine[Any, Any, None]],
    *,
    timeout_ms: int = TIMEOUT_MS,
    cluster: bool = False,
) -> None:
    """Have a conversation with the server at a URL."""

    async def held() -> None:
        caller = RedisPipeline(open_servers(url, timeout_ms, cluster=cluster), timeout_ms)
        try:
            await conversation(caller)
        finally:
            await caller.close()

    asyncio.run(held())


async def refusal(asked: asyncio.Future[Reply]) -> DependencyDown:
    with pytest.raises(DependencyDown) as refused:
        await asked
    return refused.value


def test_many_asks_of_one_turn_travel_once_and_each_gets_its_own_reply(
    redis_server: RedisProcess,
) -> None:
    async def conversation(caller: RedisPipeline) -> None:
        words = [f"word {number}" for number in range(500)]
        heard = await asyncio.gather(*(caller.ask("{t}", "say", say(word)) for word in words))
        assert [reply.decode() for reply in heard] == words
        assert caller.exchanges == 1

    talk(redis_server.url, conversation, timeout_ms=5_000)


def test_a_reply_that_comes_too_late_reaches_nobody(own_redis: RedisProcess) -> None:
    async def conversation(caller: RedisPipeline) -> None:
        assert await caller.ask("{t}", "say", say("before")) == b"before"
        own_redis.pause()
        lost = await asyncio.gather(
            *(refusal(caller.ask("{t}", "say", say(f"lost {number}"))) for number in range(3))
        )
        own_redis.resume()
        assert all("did not answer within 300 ms" in error.message for error in lost)
        assert all("is unknown" in error.message for error in lost)
        for number in range(20):
            assert await caller.ask("{t}", "say", say(f"{number}")) == f"{number}".encode()

    talk(own_redis.url, conversation)


def test_one_who_goes_away_leaves_the_others_their_replies(redis_server: RedisProcess) -> None:
    async def conversation(caller: RedisPipeline) -> None:
        asked = [caller.ask("{t}", "say", say(f"{number}")) for number in range(10)]
        asked[3].cancel()
        heard = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(heard.pop(3), asyncio.CancelledError)
        assert heard == [f"{number}".encode() for number in range(10) if number != 3]

    talk(redis_server.url, conversation, timeout_ms=5_000)


def test_a_server_that_dies_refuses_all_who_wait_and_is_found_again_when_it_is_back(
    own_redis: RedisProcess,
) -> None:
    async def conversation(caller: RedisPipeline) -> None:
        assert await caller.ask("{t}", "say", say("before")) == b"before"
        own_redis.pause()
        waiting = [caller.ask("{t}", "say", say("lost")) for _ in range(3)]
        await asyncio.sleep(0)
        own_redis.kill()
        for asked in waiting:
            assert "cannot be reached" in (await refusal(asked)).message
        nothing_sent = await refusal(caller.ask("{t}", "say", say("nobody there")))
        assert "cannot be reached" in nothing_sent.message
        assert "is unknown" not in nothing_sent.message
        assert nothing_sent.retry_after_ms
        own_redis.restart_empty()
        assert await caller.ask("{t}", "say", say("again")) == b"again"

    talk(own_redis.url, conversation, timeout_ms=2_000)


def test_passwords_databases_and_sockets_are_taken_from_the_url(tmp_path: Path) -> None:
    socket = tmp_path / "redis.sock"
    server = RedisProcess(tmp_path / "server", "--unixsocket", str(socket))
    server.command("ACL", "SETUSER", "anna", "on", ">secret", "~*", "&*", "+@all")
    server.command("ACL", "SETUSER", "default", ">closed")

    async def stores(caller: RedisPipeline) -> None:
        assert await caller.ask("t", "set", Plain(("SET", "t", "here"))) == b"OK"
        assert await caller.ask("t", "who", Plain(("ACL", "WHOAMI"))) == b"anna"

    async def is_shut_out(caller: RedisPipeline) -> None:
        assert "WRONGPASS" in (await refusal(caller.ask("t", "get", Plain(("GET", "t"))))).message

    try:
        talk(f"redis://anna:secret@127.0.0.1:{server.port}/3", stores)
        talk(f"unix://anna:secret@{socket}?db=4", stores)
        talk(f"redis://anna:wrong@127.0.0.1:{server.port}/3", is_shut_out)
        for database in ("3", "4"):
            url = f"redis://anna:secret@127.0.0.1:{server.port}/{database}"
            told = server.command("-u", url, "--no-auth-warning", "GET", "t")
            assert told == "here"
    finally:
        server.stop()


def test_a_server_behind_tls_is_spoken_to(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
        check=True,
    )
    port = free_port()
    server = RedisProcess(
        tmp_path / "server",
        *("--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
    )

    async def conversation(caller: RedisPipeline) -> None:
        long = "x" * 300_000
        heard = await asyncio.gather(*(caller.ask("{t}", "say", say(long)) for _ in range(5)))
        assert heard == [long.encode()] * 5

    try:
        url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate}"
        talk(url, conversation, timeout_ms=5_000)
    finally:
        server.stop()


def test_a_cluster_that_is_away_is_refused_in_words_and_found_when_it_comes(
    tmp_path: Path,
) -> None:
    servers = RedisCluster(tmp_path)

    async def conversation(caller: RedisPipeline) -> None:
        for server in servers.nodes:
            server.pause()
        assert (await refusal(caller.ask("{t}", "say", say("early")))).retry_after_ms
        for server in servers.nodes:
            server.resume()
        while True:
            try:
                assert await caller.ask("{t}", "say", say("now")) == b"now"
                break
            except DependencyDown:
                continue
        for server in servers.nodes:
            server.kill()
        for _ in range(3):
            assert "Redis" in (await refusal(caller.ask("{t}", "say", say("late")))).message

    try:
        talk(servers.url, conversation, timeout_ms=1_000, cluster=True)
    finally:
        servers.stop()


def test_a_plain_server_that_is_taken_for_a_cluster_is_refused_in_words(
    redis_server: RedisProcess,
) -> None:
    async def conversation(caller: RedisPipeline) -> None:
        assert "Redis" in (await refusal(caller.ask("{t}", "say", say("hello")))).message

    talk(redis_server.url, conversation, timeout_ms=5_000, cluster=True)
