"""The peers, and the environments they are installed in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".bench"
"""Kept between runs, and out of the repository."""

_SCRIPTS = "benchmarks.full_job.peers"
_INSTALL_SECONDS = 600


class NotInstalled(Exception):
    """Raised when a peer's environment cannot be made; says why."""


@dataclass(frozen=True)
class Peer:
    """One task queue: what to install, and how its worker is started."""

    name: str
    packages: tuple[str, ...]
    worker: tuple[str, ...]
    """Arguments after `python -m`; empty when the producer starts it."""

    @property
    def python(self) -> Path:
        return FOLDER / self.name / "bin" / "python"

    @property
    def producer(self) -> list[str]:
        return [str(self.python), "-m", f"{_SCRIPTS}.with_{self.name}"]


PEERS = (
    Peer("arq", ("arq",), ("arq", f"{_SCRIPTS}.with_arq.WorkerSettings")),
    Peer(
        "taskiq",
        ("taskiq", "taskiq-redis"),
        ("taskiq", "worker", f"{_SCRIPTS}.with_taskiq:broker", "--workers", "1"),
    ),
    Peer(
        "dramatiq",
        ("dramatiq[redis]",),
        ("dramatiq", f"{_SCRIPTS}.with_dramatiq", "--processes", "1"),
    ),
    Peer(
        "celery",
        ("celery[redis]",),
        (
            *("celery", "-A", f"{_SCRIPTS}.with_celery", "worker", "--pool", "solo"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
    ),
    Peer("saq", ("saq[redis]", "typing_extensions"), ("saq", f"{_SCRIPTS}.with_saq.settings")),
)
RAY = Peer("ray", ("ray",), ())


def install(peer: Peer) -> None:
    """Make the peer's environment, unless it is there already."""
    done = FOLDER / peer.name / "installed"
    if done.exists():
        return
    uv = find_uv()
    for command in (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(FOLDER / peer.name)],
        [uv, "pip", "install", "--quiet", "--python", str(peer.python), *peer.packages],
    ):
        try:
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS
            )
        except subprocess.SubprocessError as error:
            said = getattr(error, "stderr", None) or str(error)
            raise NotInstalled(str(said).strip().splitlines()[-1]) from error
    done.touch()


def find_uv() -> str:
    """The uv that `make setup` installed beside this Python, or else the one on the path."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise NotInstalled("there is no uv; `make setup` installs it, or put one on the path")
    return found
