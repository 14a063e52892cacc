"""How far nodes say they are: of steps that come close together, the ledger hears the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from dragoman.ids import AttemptId
from dragoman.live.ledger import Sender
from dragoman.live.protocol import AttemptState

_TOGETHER_SECONDS = 0.02
"""A step this much later is of no use, and most nodes report the next one before."""


class Said(msgspec.Struct, frozen=True):
    """A node said that it accepted an attempt, or works on it."""

    cell: int
    sender: Sender
    attempt_id: AttemptId
    to: AttemptState
    number: int
    """Among what the node said over this connection."""
    at: float
    """Monotonic seconds."""


class Steps:
    """Keeps a step for a moment: the next one says as much, and a result says it all."""

    def __init__(
        self,
        tell: Callable[[Said], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._tell = tell
        self._spawn = spawn
        self._kept: dict[tuple[AttemptId, Sender], Said] = {}

    def say(self, said: Said) -> None:
        """Tell the ledger soon."""
        key = (said.attempt_id, said.sender)
        before = self._kept.get(key)
        if before is None:
            asyncio.get_running_loop().call_later(_TOGETHER_SECONDS, self._time_is_up, key)
        if before is None or said.to is AttemptState.RUNNING:
            self._kept[key] = said

    def over(self, attempt_id: AttemptId, sender: Sender) -> Said | None:
        """The attempt has its result; the step that the ledger no longer needs to hear of."""
        return self._kept.pop((attempt_id, sender), None)

    def _time_is_up(self, key: tuple[AttemptId, Sender]) -> None:
        said = self._kept.pop(key, None)
        if said is not None:
            self._spawn(self._tell(said))
