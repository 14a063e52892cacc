"""An experiment on a fleet that works for live callers: a server, twenty nodes and the command."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.integration.lab_targets.fleets import PATIENCE_SECONDS, write_rows
from tests.integration.serve.server_process import (
    DRAGOMAN,
    ServerProcess,
    environment,
    eventually,
)

from dragoman.errors import DragomanError
from dragoman.live.protocol import JobClass
from dragoman.sdk import JobRequest, JobsClient

NODES, ITEMS = 20, 100
LIVE = NODES * 7 // 10
"""Live jobs at any time, of one slot for each node."""

FLEET = """
import asyncio
import sys

from dragoman.live.protocol import JobClass, NodeHealth, ResourceUsage
from dragoman.sdk import Answer, Node

URL, COUNT = sys.argv[1], int(sys.argv[2])
IDLE = ResourceUsage(cpu_percent=1.0, mem_percent=1.0)


async def work(job):
    is_batch = job.job_class is JobClass.BATCH
    await asyncio.sleep(0.1 if is_batch else 0.4)
    if is_batch:
        print("batch", job.text, flush=True)
    return Answer(text_translated=job.text.upper())


async def main():
    nodes = [
        Node(URL, work=work, nmt=["en", "es"], slots=1, node_id=f"n{n}", usage=lambda: IDLE)
        for n in range(COUNT)
    ]
    serving = [asyncio.create_task(node.serve()) for node in nodes]
    while not all(node.status is NodeHealth.READY for node in nodes):
        await asyncio.sleep(0.05)
    print("ready", flush=True)
    await asyncio.gather(*serving)


asyncio.run(main())
"""

EXPERIMENT = f"""
name = "beside live work"
[dataset]
file = "rows.jsonl"
[target]
kind = "fleet"
url = "URL"
src_lang = "en"
tgt_lang = "es"
[[evaluators]]
kind = "exact"
reference = "reference"
[run]
concurrency = {NODES}
"""


def test_live_callers_are_never_refused_and_every_item_is_carried_out_once(tmp_path: Path) -> None:
    rows = [{"source": f"item {n}", "reference": f"ITEM {n}"} for n in range(ITEMS)]
    write_rows(tmp_path / "rows.jsonl", rows)
    (tmp_path / "fleet.py").write_text(FLEET)
    written = tmp_path / "nodes.log"
    env = environment(DRAGOMAN_SCHEDULER__SELECTION__BATCH_HEADROOM="0.1")
    with ServerProcess(tmp_path / "fleet", env=env) as server, written.open("w") as log:
        (tmp_path / "exp.toml").write_text(EXPERIMENT.replace("URL", server.url))
        nodes = subprocess.Popen(
            [sys.executable, tmp_path / "fleet.py", server.url, str(NODES)],
            stdout=log,
            env=environment(),
        )
        try:
            eventually(lambda: "ready" in written.read_text(), "the nodes are ready")
            shown, live = asyncio.run(run_beside_live_work(tmp_path, server.url))
        finally:
            nodes.kill()
            nodes.wait()
    assert f"{ITEMS} succeeded" in shown
    assert set(live) == {"success"}, live
    assert live["success"] > LIVE, "callers came back while the experiment ran"
    carried_out = Counter(
        line.removeprefix("batch ")
        for line in written.read_text().splitlines()
        if line.startswith("batch ")
    )
    assert carried_out == Counter(row["source"] for row in rows)


async def run_beside_live_work(folder: Path, url: str) -> tuple[str, Counter[str]]:
    """What the command printed, and how the live callers fared meanwhile."""
    live: Counter[str] = Counter()

    async def caller(jobs: JobsClient, name: int) -> None:
        turn = 0
        while True:
            turn += 1
            request = JobRequest("en", "es", text=f"live {name} {turn}", job_class=JobClass.LIVE)
            try:
                view = await jobs.run(request)
            except DragomanError as refused:
                live[refused.code] += 1
                await asyncio.sleep(0.2)
            else:
                live[str(view.outcome)] += 1

    async with JobsClient(url) as jobs, asyncio.timeout(2 * PATIENCE_SECONDS):
        callers = [asyncio.create_task(caller(jobs, name)) for name in range(LIVE)]
        command = await asyncio.create_subprocess_exec(
            *(str(DRAGOMAN), "experiment", "run", "exp.toml", "--data-dir", "data"),
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            shown, _ = await command.communicate()
        finally:
            with suppress(ProcessLookupError):
                command.kill()
            for one in callers:
                one.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
    return shown.decode(), live
