"""Functions that the tests' experiments try."""

from __future__ import annotations

import asyncio


def shout(said: str) -> str:
    return said.upper()


def picky(said: str) -> str:
    """Fails for what begins with an x."""
    if said.startswith("x"):
        raise ValueError("no x, please")
    return said


async def endless(said: str) -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return said
