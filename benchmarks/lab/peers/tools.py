"""The other tools: how they are installed, and how they are asked to run the experiment."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.full_job.peers.environments import FOLDER, ROOT, NotInstalled, Peer, install
from benchmarks.lab.measuring import CONCURRENCY, Measured, told

INSPECT = Peer("inspect", ("inspect-ai",), ())

_PROMPTFOO = FOLDER / "promptfoo"
_PROMPTFOO_SCRIPT = Path(__file__).with_name("with_promptfoo.mjs")
_INSTALL_SECONDS = 900
_RUN_SECONDS = 1800


def inspect(items: int) -> Measured:
    """The experiment with Inspect (inspect_ai)."""
    install(INSPECT)
    command = [str(INSPECT.python), "-m", "benchmarks.lab.peers.with_inspect", str(items)]
    return _ran(command, {"PYTHONPATH": str(ROOT)})


def promptfoo(items: int) -> Measured:
    """The experiment with promptfoo, on the Node.js of this machine."""
    _install_promptfoo()
    command = ["node", str(_PROMPTFOO_SCRIPT), str(_PROMPTFOO), str(items), str(CONCURRENCY)]
    with tempfile.TemporaryDirectory() as kept:
        quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
        return _ran(command, {**quiet, "PROMPTFOO_CONFIG_DIR": kept})


TOOLS: dict[str, Callable[[int], Measured]] = {"Inspect": inspect, "promptfoo": promptfoo}


def _install_promptfoo() -> None:
    if (_PROMPTFOO / "node_modules" / "promptfoo").exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not on the path; install Node.js to measure promptfoo")
    _PROMPTFOO.mkdir(parents=True, exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts")
    command = [npm, "install", "--prefix", str(_PROMPTFOO), *quiet, "promptfoo"]
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", None) or str(error)
        raise NotInstalled(str(said).strip().splitlines()[-1]) from error


def _ran(command: list[str], env: dict[str, str]) -> Measured:
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **env},
        timeout=_RUN_SECONDS,
    )
    return told(done.stdout)
