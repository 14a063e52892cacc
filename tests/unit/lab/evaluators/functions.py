"""Functions that settings name in these tests; those for processes are called in one."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from dragoman.lab.scoring.processor_time import TooLong, at_most


def same(output: str, reference: str) -> bool:
    return output == reference


def process_id() -> float:
    return float(os.getpid())


def crash(text: str = "") -> float:
    """Dies when told to, as a library written in C may."""
    if text == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0


def leave() -> float:
    sys.exit("no more")


def fail() -> float:
    raise ValueError("no score for this")


def hang(started: str) -> float:
    with open(started, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
    return 1.0


async def later(output: Any) -> dict[str, Any]:
    return {"score": 0.5, "label": "half", "reason": str(output)}


def talk(output: str) -> float:
    print("what is printed does not disturb the answer")  # noqa: T201
    return float(len(output))


def strange() -> object:
    return object()


def unending() -> str:
    """Computes in a finalizer when the first signal comes, and then goes on computing."""

    class Slow:
        def __del__(self) -> None:
            _compute(0.4)

    try:
        with at_most(0.1):
            Slow()
            _compute(60.0)
    except TooLong:
        return "ended"
    return "went on"


def _compute(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
