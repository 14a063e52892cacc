"""Functions that the tests' experiments try."""

from __future__ import annotations

import asyncio

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
