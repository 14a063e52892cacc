"""A bare relay: what the frames of a job cost when nothing is decided about them.

Runs on uvicorn with the settings that Dragoman uses, and nothing of Dragoman. An utterance goes to
the next node in turn, a result back to its session, the frames in between end here.
"""

from __future__ import annotations

import asyncio
import socket
from itertools import cycle
from typing import Any

import uvicorn
import uvloop

from benchmarks.full_job.load import NODES
from benchmarks.full_job.relay_frames import ADDED, KIND, RESULT, SESSION, UTTERANCE

MAX_FRAME_BYTES = 4 * 1024 * 1024
FILLING = "." * 4096
FILLING_BYTES = FILLING.encode()

_sends: dict[tuple[str, int], Any] = {}
"""How to send to a node or to a session, by its number."""

_turns = cycle(range(NODES))


async def app(scope: Any, receive: Any, send: Any) -> None:
    """One socket, at /ws/node/N or /ws/session/N."""
    _, _, side, number = scope["path"].split("/")
    await receive()
    await send({"type": "websocket.accept"})
    _sends[side, int(number)] = send
    while True:
        event = await receive()
        if event["type"] != "websocket.receive":
            return
        text = event.get("text")
        if text is not None:
            await _pass_on(text, text, "text", FILLING)
        else:
            frame = event["bytes"]
            await _pass_on(frame[: ADDED.stop].decode(), frame, "bytes", FILLING_BYTES)


async def _pass_on(header: str, frame: Any, form: str, filling: Any) -> None:
    kind = header[KIND]
    if kind == UTTERANCE:
        send = _sends["node", next(_turns)]
    elif kind == RESULT:
        send = _sends["session", int(header[SESSION])]
    else:
        return
    await send({"type": "websocket.send", form: frame + filling[: int(header[ADDED])]})


async def serve() -> None:
    """Answer on a free port, which is printed, until a signal."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="websockets-sansio",
            ws_max_size=MAX_FRAME_BYTES,
            ws_per_message_deflate=False,
            access_log=False,
            log_config=None,
        )
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
