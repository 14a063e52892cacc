"""One step of an instance is lost: the question, the answer, the note, or what was stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

from tests.simulation.cluster_world import ClusterWorld

from dragoman.errors import DependencyDown
from dragoman.live.cluster import Posted

ANSWERED_BY_LEDGER = frozenset(
    {
        "cancel",
        "close",
        "drop",
        "finish",
        "look",
        "mark_asked",
        "move",
        "open",
        "outlook",
        "preempt",
        "read",
        "read_open",
        "release",
        "renew",
        "reserve",
        "settle",
        "step",
        "take_over",
    }
)
"""What is asked of the ledger for the sake of a job; the rest goes on without jobs as well."""

READS = frozenset({"outlook", "read", "read_open"})
WRITES = ANSWERED_BY_LEDGER - READS
NOTES = frozenset({"post", "publish"})
PEERS = NOTES | {"receive", "take"}


class Loss(Enum):
    """What becomes of a step."""

    QUESTION = "the question does not arrive"
    ANSWER = "the answer does not arrive"
    STORED = "what was confirmed is forgotten at once"
    LAST_MOMENTS = "what was confirmed is forgotten, with all that came after it"
    NOTE = "the note is accepted, and never read"


CONCERNS = {
    Loss.QUESTION: ANSWERED_BY_LEDGER | PEERS,
    Loss.ANSWER: ANSWERED_BY_LEDGER | PEERS,
    Loss.STORED: WRITES,
    Loss.LAST_MOMENTS: WRITES,
    Loss.NOTE: NOTES,
}
"""The steps that can be lost in each way."""

LAST_MOMENTS_SECONDS = 0.4

Operation = Callable[[], Awaitable[Any]]


class LostStep:
    """Lets an instance lose the n-th of the things that it does for jobs."""

    def __init__(self, world: ClusterWorld, name: str, loss: Loss, step: int) -> None:
        self.what = ""
        """The operation that was lost, once it was."""
        self._loss = loss
        self._left = step
        self._server = world.server
        door = world[name].access
        self._go_through = door.go_through
        door.go_through = self._through  # type: ignore[method-assign]

    async def _through(self, room: object, operation: Operation) -> Any:
        name = _name_of(operation)
        if name in CONCERNS[self._loss]:
            self._left -= 1
            if self._left == 0:
                self.what = name
                return await self._lose(room, operation)
        return await self._go_through(room, operation)

    async def _lose(self, room: object, operation: Operation) -> Any:
        match self._loss:
            case Loss.QUESTION:
                raise DependencyDown("The question was lost.")
            case Loss.ANSWER:
                await self._go_through(room, operation)
                raise DependencyDown("The answer was lost.")
            case Loss.NOTE:
                return Posted() if self.what == "post" else None
            case Loss.STORED | Loss.LAST_MOMENTS:
                return await self._forget(room, operation)

    async def _forget(self, room: object, operation: Operation) -> Any:
        before = self._server.memory()
        answer = await self._go_through(room, operation)
        if self._loss is Loss.STORED:
            self._server.fail_over(before)
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(LAST_MOMENTS_SECONDS, self._server.fail_over, before)
        return answer


def _name_of(operation: Operation) -> str:
    """What is asked for, behind the door's own wrapping."""
    code, cells = operation.__code__, operation.__closure__ or ()
    known = dict(zip(code.co_freevars, cells, strict=True))
    return str(known["operation"].cell_contents.__name__)
