"""How nodes and speakers find an instance that answers, as behind a balancer of load."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Generic, TypeVar

from dragoman.live.protocol import Message
from dragoman.sdk import Unreachable
from dragoman.sdk.transport import Door, Link, WebSocketDoorConnect

M = TypeVar("M", bound=Message)

_CONNECT_SECONDS = 10.0
"""Longer than an instance stands still; one that is gone says so at once."""


class AnyDoor(Generic[M]):
    """Connects to one instance after another, in a drawn order, until one lets it in."""

    def __init__(self, urls: Sequence[str], door: Door[M], random: Random) -> None:
        self._doors = [WebSocketDoorConnect(url, door) for url in urls]
        self._random = random

    async def __call__(self) -> Link[M]:
        for connect in self._random.sample(self._doors, len(self._doors)):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await connect()
            except (Unreachable, TimeoutError):
                continue
        raise Unreachable("no instance lets anybody in")
