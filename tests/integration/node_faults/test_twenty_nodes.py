"""A thousand requests at once on twenty nodes with four slots each, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from urllib.parse import urlsplit

import pytest
from tests.integration.live_api.manual_node import Body, job_body, new_pair
from tests.integration.node_faults.audit import EndCount, counted
from tests.integration.serve.server_process import PATIENCE_SECONDS, ServerProcess

from dragoman.live.protocol import NodeHealth, ResourceUsage
from dragoman.sdk import Accepted, Answer, Event, Job, Node, Refused

NODES, SLOTS = 20, 4
HELD = "held"
"""Jobs with this text end one by one, as the test lets them; all others end at once."""


@pytest.fixture
def server(patient_server: ServerProcess) -> ServerProcess:
    return patient_server


class BigFleet:
    """Twenty nodes in this process, and many callers of a server in another."""

    def __init__(self, server: ServerProcess) -> None:
        self.pair = new_pair()
        self.may_end = asyncio.Semaphore(0)
        self.taken: Counter[str] = Counter()
        self.turned_away: list[Refused] = []
        self.nodes = [self._node(server, number) for number in range(NODES)]
        self.url = f"{server.url}/api/v1"
        self.jobs: list[str] = []
        """Every job that was not refused."""
        self.refused = 0
        self._requests = count()

    def _node(self, server: ServerProcess, number: int) -> Node:
        return Node(
            server.url.replace("http", "ws"),
            work=self._work,
            asr=self.pair,
            nmt=self.pair,
            tts=self.pair,
            slots=SLOTS,
            node_id=f"{number}.{self.pair[0]}",
            on_event=self._note,
            usage=lambda: ResourceUsage(cpu_percent=1, mem_percent=1),
        )

    async def _work(self, job: Job) -> Answer:
        if job.text == HELD:
            await self.may_end.acquire()
        return Answer(text_translated=job.job_id)

    def _note(self, event: Event) -> None:
        if isinstance(event, Accepted):
            self.taken[event.job_id] += 1
        elif isinstance(event, Refused):
            self.turned_away.append(event)

    async def ask(self, text: str, wait_ms: int | None = None) -> Body | None:
        """The job; None when there was no slot for it."""
        request_id = f"{self.pair[0]}/{next(self._requests)}"
        body = job_body(self.pair, text=text, wait_ms=wait_ms, request_id=request_id)
        status, found = await fetch("POST", f"{self.url}/jobs", body)
        if status == 429:
            assert found["error"]["code"] == "NO_CAPACITY"
            self.refused += 1
            return None
        assert status == 201, found
        self.jobs.append(found["job_id"])
        return found

    async def fill(self, requests: int) -> int:
        """Ask for many held jobs at once; how many found a slot."""
        answers = await asyncio.gather(*(self.ask(HELD) for _ in range(requests)))
        return sum(answer is not None for answer in answers)

    async def end_some(self, jobs: int) -> None:
        """Let so many held jobs end, and wait until their slots are free."""
        used = await self.used()
        for _ in range(jobs):
            self.may_end.release()
        await becomes(self.used, used - jobs)

    async def used(self) -> int:
        """How many slots of these nodes are in use, as the server counts."""
        _, answer = await fetch("GET", f"{self.url}/nodes?limit=1000")
        own = {node.node_id for node in self.nodes}
        return sum(node["slots"]["used"] for node in answer["items"] if node["node_id"] in own)

    async def check(self, ends: EndCount) -> None:
        """No node was over its limit by its own count, and every job was done and ended once."""
        assert max(node.high_water for node in self.nodes) == SLOTS
        assert not self.turned_away, "a node was given more than it has slots for"
        assert self.taken == Counter(self.jobs)
        assert ends.ends == len(self.jobs) + self.refused
        _, newest = await fetch("GET", f"{self.url}/jobs?limit=1000")
        records = {job["job_id"]: job for job in newest["items"]}
        for job_id in self.jobs:
            assert records[job_id]["outcome"] == "success"
            assert len(records[job_id]["attempts"]) == 1


async def becomes(look: Callable[[], Awaitable[int]], value: int) -> None:
    """Wait until looking shows the value."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await look() != value:  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(0.02)


async def waiting(server: ServerProcess) -> int:
    """How many jobs wait for a slot."""
    return int(await asyncio.to_thread(counted, server, "scheduler_pending_jobs"))


async def fetch(method: str, url: str, body: Body | None = None) -> tuple[int, Body]:
    """One HTTP exchange on a socket of its own: pools of clients are slow with a thousand."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        content = json.dumps(body).encode() if body is not None else b""
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    first, _, rest = answer.partition(b"\r\n")
    return int(first.split()[1]), json.loads(rest.partition(b"\r\n\r\n")[2])


@asynccontextmanager
async def big_fleet(server: ServerProcess) -> AsyncIterator[BigFleet]:
    fleet = BigFleet(server)

    async def not_ready() -> int:
        return sum(node.status is not NodeHealth.READY for node in fleet.nodes)

    async with asyncio.TaskGroup() as group:
        for node in fleet.nodes:
            group.create_task(node.serve())
        await becomes(not_ready, 0)
        yield fleet
        for node in fleet.nodes:
            node.leave()


def test_bursts_fill_every_slot_before_anyone_is_refused(
    server: ServerProcess, ends: EndCount
) -> None:
    async def story() -> None:
        async with big_fleet(server) as fleet:
            assert await fleet.fill(requests=150) == NODES * SLOTS
            for freed in (1, 30, 80):
                await fleet.end_some(freed)
                assert await fleet.fill(requests=150) == freed
            await fleet.end_some(NODES * SLOTS)
        await fleet.check(ends)

    asyncio.run(story())


def test_a_thousand_callers_who_wait_are_all_served_once(
    server: ServerProcess, ends: EndCount
) -> None:
    async def story() -> None:
        async with big_fleet(server) as fleet:
            asked = [asyncio.create_task(fleet.ask(HELD, 100_000)) for _ in range(1_000)]
            await becomes(partial(waiting, server), 1_000 - NODES * SLOTS)
            assert await fleet.used() == NODES * SLOTS, "nobody waits while a slot is free"
            for _ in asked:
                fleet.may_end.release()
            for job in await asyncio.gather(*asked):
                assert job is not None
                assert job["result"]["text_translated"] == job["job_id"]
                assert len(job["attempts"]) == 1
        await fleet.check(ends)

    asyncio.run(story())


def test_at_95_percent_occupancy_the_last_free_slots_are_always_found(
    server: ServerProcess, ends: EndCount
) -> None:
    free = NODES * SLOTS // 20

    async def one_caller(fleet: BigFleet) -> None:
        """Uses one slot again and again; together the callers need no more than are free."""
        for _ in range(50):
            job = await fleet.ask("hello")
            assert job is not None, "refused while a slot was free"
            await becomes(partial(ended, fleet, job), 1)

    async def ended(fleet: BigFleet, job: Body) -> int:
        _, view = await fetch("GET", f"{fleet.url}/jobs/{job['job_id']}")
        return int(view["outcome"] == "success")

    async def story() -> None:
        async with big_fleet(server) as fleet:
            assert await fleet.fill(NODES * SLOTS - free) == NODES * SLOTS - free
            await asyncio.gather(*(one_caller(fleet) for _ in range(free)))
            await fleet.end_some(NODES * SLOTS - free)
        await fleet.check(ends)

    asyncio.run(story())
