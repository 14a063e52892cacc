"""The schedule of faults is the seed's alone, and the cable does what it is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from tests.integration.cluster_chaos.faults import Kind, draw_kinds, plan
from tests.integration.cluster_chaos.instances import RedisPair
from tests.integration.cluster_chaos.tcp_proxy import Proxy


def test_a_seed_makes_the_same_plan_again() -> None:
    kinds = draw_kinds(Random(3), 20)
    assert kinds == draw_kinds(Random(3), 20)
    assert plan(Random(3), kinds, "abc", ["n0"], 4) == plan(Random(3), kinds, "abc", ["n0"], 4)


def test_every_kind_of_fault_comes_as_often_as_the_others() -> None:
    assert set(Counter(draw_kinds(Random(1), 3 * len(Kind))).values()) == {3}


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(100):
        writer.write(piece)
    writer.close()


@asynccontextmanager
async def cable() -> AsyncIterator[Proxy]:
    """A cable to an echo server."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    proxy = Proxy()
    await proxy.open()
    proxy.target_port = server.sockets[0].getsockname()[1]
    yield proxy
    await proxy.close()
    server.close()
    await server.wait_closed()


def test_what_goes_through_a_cable_arrives_until_it_is_cut() -> None:
    async def story() -> None:
        async with cable() as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            await proxy.cut()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.close()
            await proxy.mend()
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"
            writer.close()

    asyncio.run(story())


def test_what_is_held_arrives_when_it_is_released() -> None:
    async def story() -> None:
        async with cable() as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            seen: list[bytes] = []
            proxy.on_request = seen.append
            proxy.hold()
            writer.write(b"hello")
            answer = asyncio.create_task(reader.readexactly(5))
            while not seen:  # noqa: ASYNC110 - the piece comes over a socket
                await asyncio.sleep(0.01)
            assert not answer.done()
            proxy.release()
            assert await answer == b"hello"
            writer.close()

    asyncio.run(story())


@pytest.mark.redis
def test_a_redis_that_took_over_leads_on_when_it_comes_back_empty(tmp_path: Path) -> None:
    pair = RedisPair(tmp_path)
    try:
        pair.primary.command("SET", "key", "from before")
        asyncio.run(pair.fail_over(unseen_seconds=0.0))
        pair.restart_empty()
        assert pair.primary.command("DBSIZE") == "0", "also of the time when it followed another"
        assert pair.primary.command("SET", "key", "value") == "OK"
    finally:
        pair.stop()


@pytest.mark.redis
def test_a_redis_can_come_back_as_it_was_some_time_ago(tmp_path: Path) -> None:
    pair = RedisPair(tmp_path)
    try:
        pair.primary.command("SET", "key", "old")
        pair.primary.dump()
        pair.primary.command("SET", "key", "new")
        pair.primary.restart_from_dump()
        assert pair.primary.command("GET", "key") == "old"
        asyncio.run(pair.restart_from_dump(age_seconds=0.0))
        assert pair.primary.command("SET", "key", "newer") == "OK"
    finally:
        pair.stop()
