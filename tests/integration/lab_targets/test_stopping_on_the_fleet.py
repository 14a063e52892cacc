"""Experiments on a fleet that are stopped: what waits for a node is given up, the rest finishes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
from tests.integration.lab_targets.fleets import (
    PATIENCE_SECONDS,
    node_of,
    serving,
    until,
    write_rows,
)
from tests.integration.serve.server_process import DRAGOMAN, environment

from dragoman.api import Server
from dragoman.live.protocol import JobView, ListPage
from dragoman.sdk import Answer, Job

EXPERIMENT = """
name = "on the fleet"
[dataset]
file = "rows.jsonl"
[target]
kind = "fleet"
url = "{url}"
src_lang = "en"
tgt_lang = "es"
[[evaluators]]
kind = "exact"
reference = "reference"
[run]
concurrency = 3
"""
TEXTS = ("one", "two", "three")


@asynccontextmanager
async def experiment(folder: Path, server: Server) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, as a user starts it; it is ended with the block."""
    rows = [{"source": text, "reference": text.upper()} for text in TEXTS]
    write_rows(folder / "rows.jsonl", rows)
    (folder / "exp.toml").write_text(EXPERIMENT.replace("{url}", server.url))
    process = await asyncio.create_subprocess_exec(
        *(str(DRAGOMAN), "experiment", "run", "exp.toml", "--data-dir", "data"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def told(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, errors = await process.communicate()
    return (out + errors).decode()


async def jobs_of(server: Server) -> list[JobView]:
    async with httpx.AsyncClient(base_url=server.url) as http:
        page = (await http.get("/api/v1/jobs")).content
    return list(msgspec.json.decode(page, type=ListPage[JobView]).items)


async def until_there_are(server: Server, **states: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = Counter((job.outcome or job.state).value for job in await jobs_of(server))
            if found == states:
                return
            await asyncio.sleep(0.05)


def test_the_first_interrupt_gives_up_what_waits_and_lets_the_rest_finish(tmp_path: Path) -> None:
    ran: list[str | None] = []
    go_on = asyncio.Event()

    async def work(job: Job) -> Answer:
        ran.append(job.text)
        await go_on.wait()
        return Answer(text_translated=(job.text or "").upper())

    async def story() -> None:
        scheduler = {"selection": {"batch_headroom": 0.5}}
        async with (
            serving(tmp_path / "fleet", scheduler=scheduler) as server,
            node_of(server, work, slots=2),
        ):
            async with experiment(tmp_path, server) as process:
                await until(lambda: len(ran) == 1)
                await until_there_are(server, RUNNING=1, CREATED=2)
                process.send_signal(signal.SIGINT)
                # The one on the node is paid for; the others are not, and nobody need wait.
                await until_there_are(server, RUNNING=1, cancelled=2)
                go_on.set()
                shown = await told(process)
            assert process.returncode == 130, shown
            assert "Stopped. The results of 1 items are kept" in shown
            async with experiment(tmp_path, server) as process:
                shown = await told(process)
            assert process.returncode == 0, shown
            assert "3 succeeded" in shown
        assert sorted(map(str, ran)) == sorted(TEXTS), "each was carried out once"

    asyncio.run(story())


def test_an_interrupt_ends_a_run_whose_nodes_are_away(tmp_path: Path) -> None:
    async def work(job: Job) -> Answer:
        raise AssertionError

    async def story(stop: signal.Signals, folder: Path) -> None:
        async with serving(folder / "fleet") as server:
            async with node_of(server, work):
                pass
            async with experiment(folder, server) as process:
                await until_there_are(server, CREATED=3)
                process.send_signal(stop)
                shown = await told(process)
            assert process.returncode == 130, shown
            assert "Stopped. The results of 0 items are kept" in shown
            await until_there_are(server, cancelled=3)

    for stop in (signal.SIGINT, signal.SIGTERM):
        (folder := tmp_path / stop.name).mkdir()
        asyncio.run(story(stop, folder))
