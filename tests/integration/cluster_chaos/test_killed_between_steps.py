"""A job without a session, whose instance is killed between two of its steps, ends once.

The instance's cable to Redis tells the steps apart: each call that speaks of the job is one.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.cluster_chaos.instances import Instance, Servers
from tests.integration.cluster_chaos.node_process import NodesOrder, translated
from tests.integration.cluster_chaos.people import NodeGroup
from tests.integration.cluster_chaos.records import Gave, Took, read_all
from tests.integration.cluster_chaos.tcp_proxy import Proxy
from tests.integration.serve.server_process import PATIENCE_SECONDS

pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = {
    "opened": 1,
    "given a slot": 2,
    "told to the node's instance": 3,
}
"""What has happened, and how many calls about the job that took."""

DYING = tuple(f"dies-{number}" for number in range(len(STEPS)))
"""An instance for each step, all of them side by side."""

_JOB_ID = re.compile(rb"j-[0-9a-f]{26}")


class Tripwire:
    """Holds a cable when it has carried so many calls about a job, which a text marks."""

    def __init__(self, cable: Proxy, text: str, calls: int) -> None:
        self.sprung = asyncio.Event()
        self._cable = cable
        self._text = text.encode()
        self._left = calls
        self._job_id: bytes | None = None
        cable.on_request = self._look

    def _look(self, piece: bytes) -> None:
        if self._job_id is None and self._text in piece:
            found = _JOB_ID.search(piece)
            assert found is not None, "the call that opens a job names it"
            self._job_id = found[0]
        if self._job_id is None or self._job_id not in piece:
            return
        if self._left == 0:
            self._cable.hold()
            self._cable.on_request = None
            self.sprung.set()
        self._left -= 1


async def kill_after(instance: Instance, request_id: str, calls: int) -> None:
    """Ask an instance for a job, and kill it when it has made so many calls for it."""
    tripwire = Tripwire(instance.to_redis, text_of(request_id), calls)
    asking = asyncio.create_task(ask(instance, request_id))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await tripwire.sprung.wait()
    finally:
        await instance.kill()
        # What was held shall never arrive: it was not sent in time.
        await instance.to_redis.break_all()
        instance.to_redis.release()
        await asyncio.gather(asking, return_exceptions=True)


def text_of(request_id: str) -> str:
    return f"the text of {request_id}"


async def ask(instance: Instance, request_id: str) -> httpx.Response:
    body = {
        "request_id": request_id,
        "src_lang": "en",
        "tgt_lang": "es",
        "text": text_of(request_id),
        "wait_ms": 30_000,
    }
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, trust_env=False) as http:
        return await http.post(f"{instance.server.url}/api/v1/jobs", json=body)


async def ended_job(instance: Instance, request_id: str) -> dict[str, Any]:
    """The one job that was made for a request, when it has ended; no caller asks for it again."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = await instance.look("/jobs?limit=1000")
            jobs = [job for job in page["items"] if job["request_id"] == request_id]
            assert len(jobs) <= 1, f"one request made {len(jobs)} jobs"
            # Its own instance may have died before it listed the job: the next driver lists it.
            if jobs and jobs[0]["outcome"] is not None:
                job = jobs[0]
                found: dict[str, Any] = await instance.look(f"/jobs/{job['job_id']}")
                return found
            await asyncio.sleep(0.1)


def test_a_job_whose_instance_is_killed_between_two_steps_ends_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            servers = await stack.enter_async_context(Servers(("stays", *DYING), tmp_path))
            stays = servers.instances["stays"]
            node = NodeGroup(
                NodesOrder(
                    urls=[stays.url],
                    node_ids=["n0.0"],
                    slots=len(STEPS),
                    seed=1,
                    diary=str(tmp_path / "n0.diary"),
                ),
                tmp_path / "n0.err",
            )
            stack.push_async_callback(node.kill)
            node.start()
            async with asyncio.TaskGroup() as group:
                for name, (step, calls) in zip(DYING, STEPS.items(), strict=True):
                    group.create_task(play(servers.instances[name], stays, step, calls))
            await until_free(stays)
            await node.end(PATIENCE_SECONDS)
            check_work(tmp_path)

    asyncio.run(story())


async def play(dies: Instance, stays: Instance, step: str, calls: int) -> None:
    """Kill an instance after a step of a job, and see what the other makes of the job."""
    await until_done(dies, f"before {step}")
    await kill_after(dies, step, calls)
    job = await ended_job(stays, step)
    assert job["outcome"] == "success", step
    assert job["result"]["text_translated"] == translated(text_of(step), "es")


async def until_done(instance: Instance, request_id: str) -> None:
    """Wait until the instance can have a job done at all: it has to learn of the far node."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if (await ask(instance, request_id)).json().get("outcome") == "success":
                return
            await asyncio.sleep(0.1)


async def until_free(instance: Instance) -> None:
    """Wait until no slot is taken."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = await instance.look("/nodes")
            if page["items"] and not any(node["slots"]["used"] for node in page["items"]):
                return
            await asyncio.sleep(0.1)


def check_work(folder: Path) -> None:
    """No attempt of any job was worked on beside another one, and none went well twice."""
    records = read_all(folder)
    done = [record.job_id for record in records if isinstance(record, Gave) and not record.code]
    assert len(done) == len(set(done))
    taken = [record.attempt_id for record in records if isinstance(record, Took)]
    assert len(taken) == len(set(taken))
