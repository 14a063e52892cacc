"""Functions that the tests' experiments try."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman import lab


def paid(said: str) -> lab.Output:
    """Says it again, for ten tokens."""
    return lab.Output(said, tokens=10)


def shout(said: str) -> str:
    return said.upper()


def picky(said: str) -> str:
    """Fails for what begins with an x."""
    if said.startswith("x"):
        raise ValueError("no x, please")
    return said


_refused_before: set[str] = set()


def second_time_lucky(said: str) -> str:
    """Fails for what begins with an x, once."""
    if said.startswith("x") and said not in _refused_before:
        _refused_before.add(said)
        raise ValueError("not yet")
    return said


async def endless(said: str) -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return said


def not_odd(output: str) -> float:
    if output == "odd":
        raise ValueError("that is odd")
    return 1.0


async def endless_but_a(said: str) -> str:
    """Answers an a, and nothing else ever."""
    if said != "a":
        await asyncio.Event().wait()
    return said


def shortness(output: str) -> float:
    return 1 / len(output)


async def held(said: str, calls: str) -> str:
    """Writes down that it was called, and answers once a file exists."""
    with open(calls, "a") as file:  # noqa: ASYNC230 - a line is written at once
        file.write(f"{said}\n")
    while not Path(f"{calls}.released").exists():  # noqa: ASYNC110, ASYNC240 - it is a file
        await asyncio.sleep(0.02)
    return said
