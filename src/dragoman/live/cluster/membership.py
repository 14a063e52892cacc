"""An instance's life in its cluster: join, stay, clean up after others, leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.cluster.answers import (
    Card,
    CleanUp,
    ClusterTerms,
    Fenced,
    Renewed,
    Superseded,
    TakenDown,
)
from dragoman.live.cluster.interface import Presence
from dragoman.live.cluster.notes import Note
from dragoman.live.cluster.pulse import Pulse
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")

_RENEWALS_IN_TTL = 3
"""How often presence is renewed before it would lapse."""


class Fence(StrEnum):
    """Why an instance must let go of everything it holds."""

    PAUSED = "paused"
    TAKEN_DOWN = "taken_down"
    SUPERSEDED = "superseded"


class SocketHolder(Protocol):
    """The holder of this instance's sockets."""

    def card(self) -> Card:
        """What to tell others about this instance now."""
        ...

    async def fence(self, why: Fence) -> None:
        """Drop every socket before anything else is handled: others may own them by now."""
        ...

    async def inherit(self, gone: CleanUp, notes: tuple[Note, ...]) -> None:
        """Do what a lapsed instance's notes ask for, and mark its nodes offline, by exact epoch.

        Called until the inbox is empty, the last time perhaps with no notes; when it raises
        DependencyDown, it is called again at the next turn, with the notes that are left.
        """
        ...


class Membership:
    """Keeps an instance present, and cleans up after those that are not."""

    def __init__(
        self,
        presence: Presence,
        holder: SocketHolder,
        *,
        pulse: Pulse,
        clock: Clock,
        terms: ClusterTerms,
    ) -> None:
        self._presence = presence
        self._holder = holder
        self._pulse = pulse
        self._clock = clock
        self._joined = False
        self._renew_seconds = terms.presence_ttl_ms / 1000 / _RENEWALS_IN_TTL

    async def join(self) -> None:
        """Be present; to be called before the first socket is accepted."""
        joined = await self._presence.join(self._holder.card())
        self._joined = True
        if joined.took_over:
            log.warning("instance_superseded_another")

    async def run(self) -> None:
        """Stay present until cancelled; ends by itself when another process has our name."""
        # Side by side: a long clean-up must not make this instance lapse.
        cleaning = asyncio.create_task(self._again_and_again(self._clean_up))
        try:
            await self._again_and_again(self._stay)
        finally:
            cleaning.cancel()
            await asyncio.gather(cleaning, return_exceptions=True)

    async def leave(self) -> None:
        """Say goodbye, if Redis answers."""
        if not self._joined:
            return
        try:
            await self._presence.leave()
        except DependencyDown as error:
            log.warning("leave_unheard", error=error.message)

    async def _again_and_again(self, step: Callable[[], Awaitable[bool]]) -> None:
        """Do something at every renewal, until it says that it is over."""
        while True:
            try:
                if not await step():
                    return
            except DependencyDown as error:
                log.warning_limited(
                    "cluster_unreachable", key="membership", every_seconds=10, error=error.message
                )
            except Exception:
                # Whatever it was, an instance that works must not vanish from its peers' sight.
                log.exception("membership_failed")
            await asyncio.sleep(self._renew_seconds)

    async def _stay(self) -> bool:
        """Renew; False when this process must stop."""
        if self._pulse.paused(self._clock.monotonic()):
            await self._fence(Fence.PAUSED)
        answer = await self._presence.renew(self._holder.card())
        match answer:
            case Superseded():
                await self._fence(Fence.SUPERSEDED)
                return False
            case TakenDown():
                await self._fence(Fence.TAKEN_DOWN)
                await self.join()
            case Renewed(revived=True):
                log.info("presence_revived")
        return True

    async def _fence(self, why: Fence) -> None:
        log.warning("instance_fenced", reason=why.value)
        await self._holder.fence(why)
        self._pulse.dealt_with()

    async def _clean_up(self) -> bool:
        """Clean up after every instance that is gone."""
        for view in await self._presence.instances():
            if not view.alive:
                clean_up = await self._presence.take_down(view.instance_id)
                if clean_up is not None:
                    await self._clean_up_after(clean_up)
        return True

    async def _clean_up_after(self, gone: CleanUp) -> None:
        log.warning("instance_gone", instance_id=gone.instance_id)
        more = True
        while more:
            drained = await self._presence.drain(gone)
            if isinstance(drained, Fenced):
                log.info("instance_back", instance_id=gone.instance_id)
                return
            more = drained.more
            await self._holder.inherit(gone, drained.notes)
        await self._presence.finish(gone)
