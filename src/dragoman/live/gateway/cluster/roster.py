"""Who is present, as far as this instance has heard."""

from __future__ import annotations

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId
from dragoman.live.cluster import Presence
from dragoman.live.dispatch import Share


class Roster:
    """The instances that were present when they were last asked for."""

    def __init__(self, presence: Presence, instance_id: InstanceId) -> None:
        self._presence = presence
        self._instance_id = instance_id
        self._present: tuple[InstanceId, ...] = ()
        self._urls: dict[InstanceId, str] = {}

    async def refresh(self) -> None:
        """Ask who is present; while Redis does not answer, this instance sees to everything."""
        try:
            views = await self._presence.instances()
        except DependencyDown:
            self._present = ()
            raise
        self._present = tuple(sorted(view.instance_id for view in views if view.alive))
        self._urls = {view.instance_id: view.card.url for view in views if view.alive}

    def others(self) -> tuple[InstanceId, ...]:
        return tuple(name for name in self._present if name != self._instance_id)

    def addresses(self) -> dict[InstanceId, str]:
        """Where the other instances answer over HTTP, as they last said."""
        return {name: url for name, url in self._urls.items() if name != self._instance_id}

    def share(self) -> Share:
        """This instance's part of what all of them look after."""
        if self._instance_id not in self._present:
            return Share()
        return Share(self._present.index(self._instance_id), len(self._present))
