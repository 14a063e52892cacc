"""A node without manners: python -m ...crooked_node URL ID LANGUAGES LOG MANNER.

MANNER is what it does with a job: `mute` says nothing at all, `full` refuses it, `stubborn` takes
it and lets nothing stop it. Lines on stdin are sent as they are. LOG gets each message that came.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.live_api.manual_node import Body, attempt_of, registration
from websockets.asyncio.client import ClientConnection, connect

url, node_id, languages, log_path, manner = sys.argv[1:]
log = Path(log_path).open("ab", buffering=0)  # noqa: SIM115 - open as long as the process lives
in_hand: list[Body] = []


async def main() -> None:
    async with connect(f"{url}/ws/node", compression=None) as socket:
        tags = tuple(languages.split(","))
        await say(socket, **registration(node_id, tags, max_concurrent_jobs=1))
        acknowledged = json.loads(await socket.recv())
        async with asyncio.TaskGroup() as group:
            group.create_task(beat_every(socket, acknowledged["heartbeat_interval_ms"] / 1000))
            group.create_task(listen(socket))
            group.create_task(pass_on(socket))


async def listen(socket: ClientConnection) -> None:
    async for frame in socket:
        message = json.loads(frame)
        log.write(json.dumps(message).encode() + b"\n")
        if message["type"] == "job_assign":
            await take(socket, message)
        elif message.get("command") == "report":
            await beat(socket)


async def take(socket: ClientConnection, job: Body) -> None:
    if manner == "full":
        error = {"code": "NODE_OVERLOADED", "message": "no slot is free"}
        await say(socket, type="job_result", success=False, error=error, **attempt_of(job))
    elif manner == "stubborn":
        in_hand.append(attempt_of(job))
        await say(socket, type="job_ack", **attempt_of(job))


async def pass_on(socket: ClientConnection) -> None:
    """Send what the test writes."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    async for line in lines:
        message = json.loads(line)
        await socket.send(line.decode())
        in_hand[:] = [held for held in in_hand if held["attempt_id"] != message["attempt_id"]]


async def beat_every(socket: ClientConnection, interval_seconds: float) -> None:
    while True:
        await beat(socket)
        await asyncio.sleep(interval_seconds)


async def beat(socket: ClientConnection) -> None:
    usage = {"cpu_percent": 1, "mem_percent": 1}
    await say(socket, type="node_heartbeat", resource_usage=usage, running=in_hand)


async def say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


asyncio.run(main())
