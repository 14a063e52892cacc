"""What a node writes in its owner's terminal, as a process of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.sdk.sockets import program, scheduling

from dragoman.live.protocol import (
    Command,
    JobResult,
    NodeControl,
    NodeDrain,
    NodeHealth,
    NodeHeartbeat,
    NodeStatus,
)

SCRIPT = """
import sys
from dragoman.sdk import Answer, Job, Node

def translate(job: Job) -> Answer:
    return Answer(text_translated=WORDS[job.text])

Node(sys.argv[1], nmt=["en", "es"], work=translate, slots=2, node_id="n-1").run()
"""


def test_a_plain_script_shows_its_connection_its_failures_and_why_it_gets_no_jobs(
    tmp_path: Path,
) -> None:
    script = tmp_path / "translator.py"
    script.write_text(SCRIPT)

    async def scenario() -> None:
        async with scheduling() as (scheduler, url), program(script, url) as node:
            await scheduler.hears(NodeHeartbeat)
            scheduler.send(NodeStatus(NodeHealth.DEGRADED, "its jobs fail"))
            for number in range(5):
                scheduler.assign(f"job-{number}", text="hello")
                await scheduler.hears(JobResult, number + 1)
            scheduler.send(NodeControl(Command.SHUTDOWN, "enough"))
            await scheduler.hears(NodeDrain)
            out, err = (stream.decode() for stream in await node.communicate())
            assert node.returncode == 0, err

        assert out.splitlines() == [
            f"Node n-1 is connected to {url}/ws/node: 2 slots, nmt en es; 2 pools, cell 0",
            "Node n-1 was told to shut down (enough): it finishes its jobs and leaves.",
        ]
        assert "Node n-1 is degraded: its jobs fail.\n" in err
        assert err.count("Traceback") == 1
        assert "Job job-0 failed:\n" in err
        assert "WORDS[job.text]" in err
        assert "NameError: name 'WORDS' is not defined" in err
        assert "The same 4 times more (NameError at translator.py:6), last in job job-4." in err

    asyncio.run(scenario())
