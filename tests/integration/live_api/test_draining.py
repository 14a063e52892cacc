"""A conversation on a real server that is told to end."""

from __future__ import annotations

import base64
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.integration.live_api.manual_node import ManualNode, new_pair
from tests.integration.serve.server_process import PATIENCE_SECONDS, ServerProcess
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect


def say(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def wait_for(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
        if found["type"] == kind:
            return found


def test_sigterm_cuts_the_open_sentence_and_brings_its_result(tmp_path: Path) -> None:
    pair = new_pair()
    with ServerProcess(tmp_path / "data") as server, ManualNode(server, pair) as node:
        url = server.url.replace("http", "ws") + "/ws/session"
        with connect(url, compression=None) as speaker:
            say(speaker, type="session_init", src_lang=pair[0], tgt_lang=pair[1])
            wait_for(speaker, "session_init_ack")
            payload = base64.b64encode(b"\1\2" * 800).decode()
            say(speaker, type="audio_chunk", seq=0, is_final=False, payload=payload)
            say(speaker, type="client_heartbeat")
            wait_for(speaker, "server_heartbeat")
            server.signal(signal.SIGTERM)
            job = node.take()
            assert job["cut"] == "close"
            assert base64.b64decode(job["audio"]) == b"\1\2" * 800
            node.succeed(job, text_asr="half a sentence", text_translated="media frase")
            assert wait_for(speaker, "translation_result")["text_translated"] == "media frase"
            with pytest.raises(ConnectionClosed):
                wait_for(speaker, "session_close_ack")
            assert speaker.close_code == 1001
        assert server.wait() == 0
