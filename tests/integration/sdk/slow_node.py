"""A node whose jobs take until a file appears: python slow_node.py URL FILE [plain]."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from dragoman.sdk import Answer, Job, Node

url, file = sys.argv[1], Path(sys.argv[2])


async def work(job: Job) -> Answer:
    while not file.exists():  # noqa: ASYNC110, ASYNC240 - the file comes from another process
        await asyncio.sleep(0.01)
    return Answer(text_translated="done")


def plain_work(job: Job) -> Answer:
    while not file.exists():
        time.sleep(0.01)
    return Answer(text_translated="done")


chosen = plain_work if "plain" in sys.argv else work
sys.exit(0 if Node(url, nmt=["en", "es"], work=chosen).run() else 3)
