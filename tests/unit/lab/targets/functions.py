"""Functions that settings name in these tests."""

from __future__ import annotations

from os import getcwd  # imported, not written here: patterns do not offer it
from typing import Any

from dragoman.lab.targets import PastTurn

not_a_function = 3

__all__ = ["getcwd"]


def shout(text: str) -> str:
    return text.upper()


async def whisper(text: str, times: int = 1) -> str:
    return text.lower() * times


def converse(text: str, history: list[PastTurn]) -> str:
    return f"{len(history)}:{text}"


def everything(**columns: Any) -> dict[str, Any]:
    return columns


def by_position(text: str, /) -> str:
    return text
