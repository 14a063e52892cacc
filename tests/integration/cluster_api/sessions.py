"""A client's session over a real socket, as little of it as these tests need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.serve.server_process import ServerProcess
from websockets.sync.client import connect


@contextmanager
def open_session(
    server: ServerProcess, pair: tuple[str, str], key: str | None = None
) -> Iterator[str]:
    """A session at an instance; its id."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    url = server.url.replace("http", "ws") + "/ws/session"
    with connect(url, additional_headers=headers, compression=None) as socket:
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        socket.send(json.dumps(init))
        ack: dict[str, Any] = json.loads(socket.recv(timeout=30))
        assert ack["type"] == "session_init_ack", ack
        yield ack["session_id"]
