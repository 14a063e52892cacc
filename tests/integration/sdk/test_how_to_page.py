"""The page that teaches how to write a node, taken at its word."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.documents.blocks import file_of
from tests.integration.sdk.sockets import program, scheduling

from dragoman.live.protocol import JobResult, NodeHeartbeat

ADDRESS = "ws://127.0.0.1:8080"


def test_the_twenty_lines_of_the_page_are_a_node(tmp_path: Path) -> None:
    code = file_of("docs/howto/write-a-node.md", "node.py")
    assert code.count("\n") <= 20
    assert ADDRESS in code

    async def scenario() -> None:
        async with scheduling() as (scheduler, url):
            script = tmp_path / "node.py"
            script.write_text(code.replace(ADDRESS, url))
            async with program(script) as node:
                await scheduler.hears(NodeHeartbeat)
                scheduler.assign("a", text="hello world")
                [result] = await scheduler.hears(JobResult)
                assert result.text_translated == "hola mundo"
                node.send_signal(signal.SIGTERM)
                assert await node.wait() == 0

    asyncio.run(scenario())
