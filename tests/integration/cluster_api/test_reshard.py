"""All slots of a Redis Cluster move while two instances serve sessions and callers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
import redis
from tests.integration.cluster_api.pair_of_servers import PairOfServers
from tests.integration.live_api.manual_node import attempt_of, job_body, new_pair, registration
from tests.integration.serve.server_process import PATIENCE_SECONDS, ServerProcess
from tests.servers import RedisCluster
from tests.servers.programs import wait_until
from websockets.asyncio.client import ClientConnection, connect

pytestmark = pytest.mark.redis

SLOTS = 16_384
SLOTS_AT_ONCE = 64
JOBS = 3_000
JOBS_A_SECOND = 200
IN_FLIGHT = 96
"""A machine that is too busy for so many jobs a second has no more than these under way."""
SESSIONS_EACH = 6
NODES_EACH = 2
SLOTS_OF_A_NODE = 64
BY_HTTP = 4
"""Every fourth job is asked for over HTTP, without a session."""

REDIS_SAYS = ("TRYAGAIN", "MOVED", "CROSSSLOT", "CLUSTERDOWN", "ASK ")


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path / "cluster")
    yield cluster
    cluster.stop()


class Masters:
    """The masters of a cluster, as an operator sees them who moves slots between them."""

    def __init__(self, cluster: RedisCluster) -> None:
        # Its commands are not typed.
        self._clients: list[Any] = [redis.Redis.from_url(node.url) for node in cluster.nodes]
        self._ids = [client.execute_command("CLUSTER MYID").decode() for client in self._clients]
        self._ports = [node.port for node in cluster.nodes]

    def owners(self) -> list[str]:
        """The master of each slot, as the first one knows it."""
        owners = [""] * SLOTS
        for first, last, master, *_ in self._clients[0].execute_command("CLUSTER SLOTS"):
            owners[first : last + 1] = [master[2].decode()] * (last + 1 - first)
        return owners

    def hand_on(self, slots: list[int], owner: str) -> None:
        """Move slots of one master, with all their keys, to the next."""
        at = self._ids.index(owner)
        to = (at + 1) % len(self._ids)
        source, target = self._clients[at], self._clients[to]
        self._set(target, slots, "IMPORTING", self._ids[at])
        self._set(source, slots, "MIGRATING", self._ids[to])
        left = slots
        while left:
            pipeline = source.pipeline(transaction=False)
            for slot in left:
                pipeline.execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
            found = pipeline.execute()
            left = [slot for slot, keys in zip(left, found, strict=True) if keys]
            for keys in filter(None, found):
                source.execute_command(
                    "MIGRATE", "127.0.0.1", self._ports[to], "", 0, 5_000, "KEYS", *keys
                )
        for client in dict.fromkeys((target, source, *self._clients)):
            self._set(client, slots, "NODE", self._ids[to])

    @staticmethod
    def _set(client: Any, slots: list[int], *words: str) -> None:
        pipeline = client.pipeline(transaction=False)
        for slot in slots:
            pipeline.execute_command("CLUSTER SETSLOT", slot, *words)
        assert set(pipeline.execute()) <= {b"OK", True}


class Load:
    """Jobs of sessions and of callers, and the nodes that do them; every answer is kept."""

    def __init__(self, pair: tuple[str, str]) -> None:
        self._pair = pair
        self.answers: Counter[str] = Counter()
        """How often each text was answered."""
        self.wrong: list[str] = []
        """Answers that are none, or that tell of Redis."""
        self.assigned: Counter[str] = Counter()
        """How often a node was given each text."""
        self._under_way = asyncio.Semaphore(IN_FLIGHT)
        self._tasks: set[asyncio.Task[None]] = set()

    # --- nodes ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def node(self, server: ServerProcess, name: str) -> AsyncIterator[None]:
        async with _socket(server, "/ws/node") as socket:
            said = registration(name, self._pair, max_concurrent_jobs=SLOTS_OF_A_NODE)
            await socket.send(json.dumps(said))
            ready = asyncio.Event()
            working = asyncio.create_task(self._work(socket, ready))
            beating = asyncio.create_task(_beat(socket))
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await ready.wait()
                yield
            finally:
                working.cancel()
                beating.cancel()
                await asyncio.gather(working, beating, return_exceptions=True)

    async def _work(self, socket: ClientConnection, ready: asyncio.Event) -> None:
        async for frame in socket:
            message = json.loads(frame)
            if message.get("status") == "ready":
                ready.set()
            if message["type"] == "job_assign":
                self.assigned[message["text"]] += 1
                done = {
                    "type": "job_result",
                    "success": True,
                    "text_translated": f"{message['text']} done",
                    **attempt_of(message),
                }
                await socket.send(json.dumps(done))

    # --- those who ask --------------------------------------------------------------------------

    @asynccontextmanager
    async def session(self, server: ServerProcess) -> AsyncIterator[ClientConnection]:
        async with _socket(server, "/ws/session") as socket:
            init = {"type": "session_init", "src_lang": self._pair[0], "tgt_lang": self._pair[1]}
            await socket.send(json.dumps(init))
            ack = json.loads(await socket.recv())
            assert ack["type"] == "session_init_ack", ack
            hearing = asyncio.create_task(self._hear(socket))
            try:
                yield socket
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    async def _hear(self, socket: ClientConnection) -> None:
        async for frame in socket:
            message = json.loads(frame)
            if message["type"] in ("translation_result", "missing_result", "error"):
                if message.get("delivery_seq", 1) % 20 == 0:
                    got = {"type": "client_heartbeat", "last_delivery_seq": message["delivery_seq"]}
                    await socket.send(json.dumps(got))
                self._answered(str(frame), message.get("text_translated"))
                self._under_way.release()
            elif any(word in str(frame) for word in REDIS_SAYS):
                self.wrong.append(str(frame))

    async def _call(self, http: httpx.AsyncClient, server: ServerProcess, text: str) -> None:
        body = job_body(self._pair, text=text, request_id=text.replace(" ", "-"), wait_ms=30_000)
        answer = await http.post(f"{server.url}/api/v1/jobs", json=body)
        result = answer.json().get("result") or {}
        is_done = answer.is_success and answer.json().get("outcome") == "success"
        self._answered(answer.text, result.get("text_translated") if is_done else None)
        self._under_way.release()

    def _answered(self, whole: str, translated: str | None) -> None:
        if translated is None or any(word in whole for word in REDIS_SAYS):
            self.wrong.append(whole)
        if translated is not None:
            self.answers[translated] += 1

    # --- the whole ------------------------------------------------------------------------------

    async def run(
        self, servers: list[ServerProcess], sockets: list[ClientConnection], stop: asyncio.Event
    ) -> list[str]:
        """Ask at a steady rate until there were enough jobs and stop is set; what was asked."""
        loop = asyncio.get_running_loop()
        said: Counter[int] = Counter()
        asked: list[str] = []
        began = loop.time()
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, trust_env=False) as http:
            while len(asked) < JOBS or not stop.is_set():
                number = len(asked)
                await self._under_way.acquire()
                # Behind its time it asks at once; the rate is what is wanted at most.
                await asyncio.sleep(max(0.0, began + number / JOBS_A_SECOND - loop.time()))
                text = f"text {number}"
                asked.append(text)
                if number % BY_HTTP == 0:
                    server = servers[number // BY_HTTP % len(servers)]
                    task = asyncio.create_task(self._call(http, server, text))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                else:
                    place = number % len(sockets)
                    utterance = {
                        "type": "utterance",
                        "utterance_index": said[place],
                        "text": text,
                    }
                    said[place] += 1
                    await sockets[place].send(json.dumps(utterance))
            # All that were under way have been answered when all can be taken again.
            async with asyncio.timeout(PATIENCE_SECONDS):
                for _ in range(IN_FLIGHT):
                    await self._under_way.acquire()
                await asyncio.gather(*self._tasks)
        return asked


@asynccontextmanager
async def _socket(server: ServerProcess, path: str) -> AsyncIterator[ClientConnection]:
    async with connect(server.url.replace("http", "ws") + path, compression=None) as socket:
        yield socket


async def _beat(socket: ClientConnection) -> None:
    usage = {"cpu_percent": 1, "mem_percent": 1}
    while True:
        beat = {"type": "node_heartbeat", "resource_usage": usage, "running": []}
        await socket.send(json.dumps(beat))
        await asyncio.sleep(2)


def in_turns(owners: list[str]) -> Iterator[tuple[str, list[int]]]:
    """All slots, some of each master after some of the others: a master without any becomes a
    replica."""
    of_owner = {
        owner: [slot for slot, each in enumerate(owners) if each == owner] for owner in set(owners)
    }
    for start in range(0, SLOTS, SLOTS_AT_ONCE):
        for owner, slots in of_owner.items():
            if some := slots[start : start + SLOTS_AT_ONCE]:
                yield owner, some


def test_every_slot_of_redis_moves_under_load_and_no_job_is_lost_or_done_twice(
    own_cluster: RedisCluster, tmp_path: Path
) -> None:
    settings = {"DRAGOMAN_CLUSTER__REDIS_CLUSTER": "true"}
    masters = Masters(own_cluster)
    before = masters.owners()
    load = Load(new_pair())

    def move_all(stop: Event) -> int:
        """Move every slot once, spread over the jobs; how many were moved."""
        moved = 0
        for owner, slots in in_turns(before):
            due = JOBS * moved // SLOTS
            wait_until(
                lambda: stop.is_set() or load.answers.total() + len(load.wrong) >= due,  # noqa: B023
                "more jobs",
                PATIENCE_SECONDS,
            )
            if stop.is_set():
                break
            masters.hand_on(slots, owner)
            moved += len(slots)
        return moved

    async def live(servers: list[ServerProcess]) -> tuple[list[str], int]:
        stop, is_moved = Event(), asyncio.Event()
        async with AsyncExitStack() as open_:
            for place, server in enumerate(servers):
                for number in range(NODES_EACH):
                    await open_.enter_async_context(load.node(server, f"n-{place}-{number}"))
            sockets = [
                await open_.enter_async_context(load.session(server))
                for _ in range(SESSIONS_EACH)
                for server in servers
            ]
            moving = asyncio.create_task(asyncio.to_thread(move_all, stop))
            moving.add_done_callback(lambda _: is_moved.set())
            try:
                asked = await load.run(servers, sockets, is_moved)
            finally:
                stop.set()
            return asked, await moving

    with PairOfServers(own_cluster, tmp_path, **settings) as pair:
        asked, moved = asyncio.run(live([pair.one, pair.two]))
        for server in (pair.one, pair.two):
            assert "Traceback" not in server.log

    assert moved == SLOTS
    after = masters.owners()
    assert all(was != now for was, now in zip(before, after, strict=True))
    assert load.wrong == [], load.wrong[0]
    assert len(asked) >= JOBS
    assert load.answers == Counter(f"{text} done" for text in asked)
    assert load.assigned == Counter(asked)
