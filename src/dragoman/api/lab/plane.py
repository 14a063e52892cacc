"""The lab as a part of the server's life."""

from __future__ import annotations

from dragoman.api.lab.child import LabChild
from dragoman.api.lab.push_forwarding import PushForwarder


class LabPlane:
    """The lab's process, and the sockets that watch it from outside."""

    def __init__(self, child: LabChild, pushes: PushForwarder) -> None:
        self._child = child
        self._pushes = pushes

    async def start(self) -> None:
        await self._child.start()

    async def drain(self) -> None:
        self._pushes.close_all()
        await self._child.drain()

    async def stop(self) -> None:
        await self._child.stop()
