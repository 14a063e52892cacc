"""A scheduler in memory with the parts that only the project's own tests exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from types import TracebackType
from typing import Any

from tests.simulation.delaying import DelayingLedger

from dragoman.auth import ApiKey, Authenticator
from dragoman.clock import Clock
from dragoman.ids import RequestId, SessionId, TenantId
from dragoman.live.cluster import Cluster, MemoryHub
from dragoman.live.dispatch import MemoryLedger
from dragoman.live.gateway import Delay, LivePlane, cluster_terms, instant, rules
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import JobClass, Pipeline
from dragoman.live.shared import SharedLedger
from dragoman.observability import Tracing
from dragoman.settings import Settings
from dragoman.testing import (
    LONG_SECONDS,
    MemoryScheduler,
    SimulatedNode,
    SubmittedJob,
    VirtualClock,
    run_virtual,
)
from dragoman.testing import settings_with as dotted_settings
from dragoman.testing.shared import shared_ledger

TEXT = Pipeline(use_nmt=True, use_tts=True)
LONG = LONG_SECONDS


def settings_with(**overrides: Any) -> Settings:
    """The defaults, with dotted keys (dots written as __) set otherwise."""
    return dotted_settings({key.replace("__", "."): value for key, value in overrides.items()})


class Conveniences(MemoryScheduler):
    """What the project's own tests ask of a scheduler, in a few words."""

    ledger: Any

    # --- nodes and jobs --------------------------------------------------------------------------

    async def node(self, name: str, *, key: ApiKey | None = None, **manner: Any) -> SimulatedNode:
        """A node that is ready for work."""
        return await self.add_simulated_node(name, key=key, **manner)

    def new_node(self, name: str, *, key: ApiKey | None = None, **manner: Any) -> SimulatedNode:
        """A node that has not connected yet."""
        return self.new_simulated_node(name, key=key, **manner)

    async def submit(
        self,
        request_id: str,
        *,
        tenant: str = "default",
        may_wait: bool = False,
        batch: bool = False,
        text: str = "hello",
        session: str | None = None,
        **spec: Any,
    ) -> SubmittedJob:
        """Ask for a job from Chinese to English, unless said otherwise; a refusal is kept."""
        whole = JobSpec(
            TenantId(tenant),
            RequestId(request_id),
            spec.pop("src_lang", "zh"),
            spec.pop("tgt_lang", "en"),
            spec.pop("pipeline", TEXT),
            job_class=JobClass.BATCH if batch else JobClass.LIVE,
            session_id=SessionId(session) if session else None,
            **spec,
        )
        return await self._submit_order(whole, JobInput(text=text), may_wait=may_wait)

    # --- looking ---------------------------------------------------------------------------------

    async def pass_time(self, seconds: float) -> None:
        """Let the world go on for a while."""
        await asyncio.sleep(seconds)

    async def size(self) -> Mapping[str, int]:
        size: Mapping[str, int] = await self.ledger.size()
        return size

    async def held(self) -> int:
        return (await self.size())["held"]

    def dropped(self, reason: str) -> float:
        """How many results were dropped for a reason."""
        return float(self.metrics.results_dropped.labels(reason)._value.get())


class World(Conveniences):
    """One instance, its network and its nodes."""

    def __init__(
        self,
        *,
        seed: int,
        clock: Clock,
        settings: Settings | None = None,
        ledger: MemoryLedger | SharedLedger | None = None,
        authenticator: Authenticator | None = None,
        delay: Delay = instant,
        wrap: Callable[[SharedLedger], SharedLedger] | None = None,
        tracing: Callable[[Clock], Tracing | None] = lambda clock: None,
        answers_late: float | None = None,
        instance_id: str = "here",
        cluster: Cluster | None = None,
    ) -> None:
        self._given_ledger = ledger
        self._wrap = wrap
        self._tracing = tracing
        self._answers_late = answers_late
        self._cluster = cluster
        self.ledger: Any = None
        super().__init__(
            seed=seed,
            clock=clock,
            settings=settings,
            authenticator=authenticator,
            delay=delay,
            instance_id=instance_id,
        )

    def _new_plane(self) -> LivePlane:
        pools = self.settings.scheduler.pools
        size = {"cell_size": pools.cell_size, "max_cells": pools.max_cells}
        random = Random(self.seed + 1)
        if self._given_ledger is not None:
            self.ledger = self._given_ledger
        elif self._wrap is not None:
            self.ledger = shared_ledger(self.clock, random, self.settings)
        else:
            kind: Callable[..., MemoryLedger] = MemoryLedger
            if self._answers_late is not None:
                delays = Random(self.seed + 4)
                kind = partial(DelayingLedger, delays=delays, seconds=self._answers_late)
            terms = rules.ledger_terms(self.settings)
            self.ledger = kind(terms, self.instance_id, self.clock, random, **size)
        if self._cluster is None and not isinstance(self.ledger, MemoryLedger):
            # An instance alone, on a ledger that it could share.
            hub = MemoryHub(self.clock, Random(self.seed + 5), cluster_terms(self.settings))
            self._cluster = hub.peers(self.instance_id)
        return LivePlane(
            ledger=self.ledger if self._wrap is None else self._wrap(self.ledger),
            tracing=self._tracing(self.clock),
            cluster=self._cluster,
            **self._plane_parts(),
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if error is None:
            assert not left, f"tasks left behind: {left}"


def play(story: Callable[[World], Awaitable[None]], *, seed: int = 1, **options: Any) -> None:
    """Act a story out on the virtual clock. Options are the world's, or settings if unknown."""
    known = {"ledger", "authenticator", "delay", "wrap", "tracing", "answers_late"}
    overrides = {key: value for key, value in options.items() if key not in known}
    given = {key: value for key, value in options.items() if key in known}

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        async with World(
            seed=seed, clock=clock, settings=settings_with(**overrides), **given
        ) as world:
            await story(world)

    run_virtual(main, seed=seed)
