"""What may go wrong between an instance and its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId


class Faults:
    """Faults of a cluster in memory; none until a test asks for them. Shares are from 0 to 1."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.down = False
        """Nothing is answered."""
        self.lost_changes = 0.0
        """Share of news that a listener does not hear."""
        self.lost_notes = 0.0
        """Share of posted notes that are lost after all, as when Redis fails over."""
        self.lost_answers = 0.0
        """Share of operations that take effect, but whose answer does not arrive."""
        self.late_seconds = 0.0
        """News and notes arrive up to this late, and overtake each other."""
        self._paused: dict[InstanceId, asyncio.Event] = {}

    def pause(self, instance_id: InstanceId) -> None:
        """What the instance asks is answered only after `resume`, and it hears nothing."""
        self._paused.setdefault(instance_id, asyncio.Event())

    def resume(self, instance_id: InstanceId) -> None:
        waiting = self._paused.pop(instance_id, None)
        if waiting is not None:
            waiting.set()

    async def there(self, instance_id: InstanceId) -> None:
        """The way of an operation to the cluster."""
        while (paused := self._paused.get(instance_id)) is not None:
            await paused.wait()
        if self.down:
            # Others have their turn, as they would during a call.
            await asyncio.sleep(0)
            raise DependencyDown("The cluster does not answer.")

    def back(self) -> None:
        """The way of its answer."""
        if self._happens(self.lost_answers):
            raise DependencyDown("The cluster's answer was lost.")

    def carry_note(self, deliver: Callable[[], object]) -> None:
        if not self._happens(self.lost_notes):
            self._carry(deliver)

    def carry_change(self, listener: InstanceId, deliver: Callable[[], object]) -> None:
        if not self.down and listener not in self._paused and not self._happens(self.lost_changes):
            self._carry(deliver)

    def _carry(self, deliver: Callable[[], object]) -> None:
        if self.late_seconds:
            late = self._random.random() * self.late_seconds
            asyncio.get_running_loop().call_later(late, deliver)
        else:
            deliver()

    def _happens(self, share: float) -> bool:
        return share > 0 and self._random.random() < share
