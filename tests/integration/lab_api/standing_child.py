"""A stand-in for the lab's process: says who asked for what, and dies when it is told to.

Usage: standing_child MODE LISTENER_FD, where MODE is `well`, `silent` (never ready) or `ends`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from base64 import urlsafe_b64decode
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket


def principal_of(headers: Headers) -> dict[str, str]:
    """Decoded by hand: importing Dragoman would take longer than all the rest."""
    found: dict[str, str] = json.loads(urlsafe_b64decode(headers["x-dragoman-principal"]))
    return found


async def echo(request: Request) -> Response:
    body = 0
    async for piece in request.stream():
        body += len(piece)
    if request.url.path.endswith("/die"):
        os._exit(3)
    principal = principal_of(request.headers)
    return JSONResponse(
        {
            "path": request.url.path,
            "query": request.url.query,
            "method": request.method,
            "headers": dict(request.headers),
            "tenant": principal["tenant"],
            "role": principal["role"],
            "body_bytes": body,
            "pid": os.getpid(),
        },
        status_code=207,
        headers={"X-From": "the lab"},
    )


async def talk(caller: WebSocket) -> None:
    await caller.accept()
    principal = principal_of(caller.headers)
    await caller.send_json({"type": "hello", "tenant": principal["tenant"]})
    if caller.url.path.endswith("/die"):
        os._exit(3)
    if caller.url.path.endswith("/short"):
        await caller.close(1000, "over")
        return
    await caller.receive()


def main(mode: str, listener: int) -> None:
    with open(0, "rb", buffering=0, closefd=False) as given:
        settings = given.readline()
        given.readline()  # how to reach the server
        with Path(os.environ["CHILD_NOTES"]).open("a") as notes:
            notes.write(f"{os.getpid()} {len(settings)}\n")
        if mode == "ends":
            sys.exit(3)
        if mode == "silent":
            given.read()
            return
    routes = [
        Route("/{path:path}", echo, methods=["GET", "POST", "DELETE", "PATCH"]),
        WebSocketRoute("/ws/{path:path}", talk),
    ]
    server = _Server(
        uvicorn.Config(Starlette(routes=routes), fd=listener, log_config=None, lifespan="off")
    )

    async def serve() -> None:
        serving = asyncio.create_task(server.serve())
        await asyncio.to_thread(os.read, 0, 1)
        server.should_exit = True
        await serving

    asyncio.run(serve())


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        os.write(1, b"ready\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
