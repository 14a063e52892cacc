"""Checks Redis before the server starts, and says why an unsuitable one is refused."""

from __future__ import annotations

import asyncio

from dragoman.clock import Clock
from dragoman.errors import CannotStart, DependencyDown
from dragoman.live.shared import SharedLedger
from dragoman.observability import get_logger
from dragoman.settings import ClusterSettings, masked

PATIENCE_SECONDS = 30.0
"""How long a server waits for a Redis that does not answer: it may be starting too."""

_BETWEEN_TRIES_SECONDS = 0.5

_log = get_logger(__name__)


class RedisGate:
    """Holds a start back until Redis answers; ends it where waiting would not help."""

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock,
        ledger: SharedLedger,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._patience_seconds = patience_seconds

    async def start(self) -> None:
        """Return once the server named in the settings answers, and is one that will do.

        It must take the ledger's functions, and no instance of another data model may use it.
        """
        deadline = self._clock.monotonic() + self._patience_seconds
        while (problem := await self._problem()) is not None:
            if self._clock.monotonic() >= deadline:
                raise CannotStart(problem)
            _log.warning_limited(
                "waiting_for_redis", key="redis", every_seconds=10, problem=problem
            )
            await asyncio.sleep(_BETWEEN_TRIES_SECONDS)

    async def drain(self) -> None:
        """There is nothing to wait for."""

    async def stop(self) -> None:
        """There is nothing to let go of."""

    async def _problem(self) -> str | None:
        """Why the server must wait a little longer; what time does not cure is raised."""
        # Named only here: a server without the extra installed never asks for it.
        from dragoman.redis_servers import ask_redis, misfit

        url, timeout_ms = self._settings.redis_url, self._settings.redis_timeout_ms
        try:
            facts = await asyncio.to_thread(ask_redis, url, timeout_ms, self._clock)
        except DependencyDown as error:
            return error.message
        if facts is None:
            return await self._ledger_problem()
        if facts.eviction:
            _log.warning(
                "redis_may_forget",
                maxmemory_policy=facts.eviction,
                remedy="a lease that Redis evicts may be given twice; set it to noeviction",
            )
        unfit = misfit(facts, cluster=self._settings.redis_cluster)
        if unfit is None:
            return await self._ledger_problem()
        sentence = f"Redis at {masked(url)} cannot be used: {unfit.found}; {unfit.remedy}."
        if not unfit.may_pass:
            raise CannotStart(sentence)
        return sentence

    async def _ledger_problem(self) -> str | None:
        try:
            await self._ledger.start()
        except DependencyDown as error:
            return error.message
        return None
