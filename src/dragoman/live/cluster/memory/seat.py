"""What every operation of an instance in memory needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.ids import InstanceId
from dragoman.live.cluster.answers import Superseded, TakenDown

if TYPE_CHECKING:
    from dragoman.live.cluster.memory.hub import MemoryHub


class HubSeat:
    """An instance's place at the hub, and the way there and back."""

    def __init__(self, hub: MemoryHub, instance_id: InstanceId) -> None:
        self._hub = hub
        self._instance_id = instance_id
        self._incarnation = ""
        """This life of the instance; empty before it has joined."""
        self._born_ms = 0
        """When it joined."""
        self._next_incarnation = ""
        """The life to be joined with, also when the first answer to that is lost; else empty."""

    @property
    def instance_id(self) -> InstanceId:
        return self._instance_id

    @property
    def _now_ms(self) -> int:
        return self._hub.clock.now_ms()

    async def _there(self) -> None:
        await self._hub.faults.there(self._instance_id)

    def _back(self) -> None:
        self._hub.faults.back()

    def _refusal(self) -> Superseded | TakenDown | None:
        """Why this process may not speak for its instance; one that was forgotten may."""
        hub = self._hub
        known = hub.instances.get(self._instance_id) or hub.finished.get(self._instance_id)
        return known.refusal(self._incarnation) if known is not None else None
