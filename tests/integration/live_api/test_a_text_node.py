"""The node of the how-to, run as it stands, and the jobs that the documents send it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.documents.blocks import blocks_of, file_of
from tests.documents.following import commands_of
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)

ADDRESS = "127.0.0.1:8080"


@contextmanager
def node_of_the_page(server: ServerProcess, folder: Path) -> Iterator[dict[str, Any]]:
    """The node of write-a-node.md, ready for jobs, as the server shows it."""
    code = file_of("docs/howto/write-a-node.md", "node.py")
    script = folder / "node.py"
    script.write_text(code.replace(ADDRESS, server.url.removeprefix("http://")))

    def nodes() -> list[dict[str, Any]]:
        """Those that are ready: nodes of earlier tests are offline by now."""
        found: list[dict[str, Any]] = server.get("/api/v1/nodes").json()["items"]
        return [node for node in found if node["status"] == "ready"]

    with subprocess.Popen([sys.executable, script], env=environment()) as node:
        try:
            eventually(lambda: bool(nodes()), "the node is ready")
            yield nodes()[0]
            node.send_signal(signal.SIGTERM)
            assert node.wait(timeout=PATIENCE_SECONDS) == 0
        finally:
            if node.poll() is None:
                node.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("text") / "data") as server:
        yield server


def commands(page: str, program: str, server: ServerProcess) -> list[list[str]]:
    """The command lines of a page that run a program, as a shell would read them."""
    typed = [
        line
        for block in blocks_of(page)
        if block.language == "sh"
        for line in commands_of(block.text)
    ]
    words = [shlex.split(line.replace(f"http://{ADDRESS}", server.url)) for line in typed]
    return [line for line in words if line[0].rsplit("/")[-1] == program]


@pytest.mark.parametrize("page", ["docs/quickstart.md", "docs/howto/write-a-node.md"])
def test_what_a_page_sends_the_node_that_only_translates_works(
    server: ServerProcess, tmp_path: Path, page: str
) -> None:
    jobs = [command for command in commands(page, "curl", server) if "-d" in command]
    sayings = [
        command
        for command in commands(page, "dragoman", server)
        if command[1] == "say" and command[command.index("--from") + 1] == "en"
    ]
    assert (len(jobs), len(sayings)) == (1, 1), "the page says how to send the node a job"
    with node_of_the_page(server, tmp_path):
        for command in jobs:
            body = json.loads(command[command.index("-d") + 1])
            [url] = [word for word in command if word.startswith("http")]
            answer = httpx.post(url, json=body, timeout=PATIENCE_SECONDS)
            assert (answer.status_code, answer.json()["outcome"]) == (201, "success")
            assert answer.json()["result"]["text_translated"]
        for command in sayings:
            code, printed, errors = run(*command[1:], "--url", server.url)
            assert (code, errors) == (0, "")
            assert printed


def test_a_node_that_only_translates_is_in_the_text_pools_of_its_languages(
    server: ServerProcess, tmp_path: Path
) -> None:
    body = {"src_lang": "en", "tgt_lang": "es", "text": "hello", "wait_ms": 5_000}
    with node_of_the_page(server, tmp_path) as node:
        assert node["pools"] == [
            {"pair": pair, "kinds": ["text_to_text"]}
            for pair in ("en:en", "en:es", "es:en", "es:es")
        ]
        assert (node["pools_total"], node["reason"]) == (4, None)

        [pool] = [
            found
            for found in server.get("/api/v1/pools").json()["items"]
            if found["pair"] == "en:es"
        ]
        assert pool["kinds"] == {"text_to_text": pool["nodes"]}
        assert (pool["ready"], pool["slots"]) == (1, {"total": 2, "free": 2})

        spoken = httpx.post(
            f"{server.url}/api/v1/jobs",
            json={**body, "pipeline": {"use_nmt": True, "use_tts": True}},
            timeout=PATIENCE_SECONDS,
        )
        assert spoken.status_code == 409, "it does not speak, and waiting would not teach it"
        assert spoken.json()["error"]["code"] == "PAIR_UNSUPPORTED"
