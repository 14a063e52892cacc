"""A whole live plane with scripted nodes, on the virtual clock or on a real loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from random import Random
from types import TracebackType
from typing import Any, Self

from tests.simulation.delaying import DelayingLedger
from tests.simulation.nodes import Manner, ScriptedNode
from tests.simulation.shared_server import shared_ledger

from dragoman.auth import ApiKey, Authenticator, OpenAuthenticator
from dragoman.clock import Clock
from dragoman.errors import DragomanError, JobEnded, NotFound
from dragoman.ids import InstanceId, JobId, NodeId, RequestId, SessionId, TenantId
from dragoman.live.cluster import Cluster, MemoryHub
from dragoman.live.core.memory import MemoryLedger
from dragoman.live.dispatch import JobOrder
from dragoman.live.gateway import Connections, LivePlane, MemoryNetwork, cluster_terms, rules
from dragoman.live.gateway.memory import Delay, instant
from dragoman.live.ledger import JobInput, JobRecord, JobSpec
from dragoman.live.protocol import JobClass, JobPartial, NodeHealth, Outcome, Pipeline
from dragoman.live.shared import SharedLedger
from dragoman.observability import Metrics, Tracing
from dragoman.randomness import Randomness, Secrets
from dragoman.settings import Settings, load_settings
from dragoman.virtual import VirtualClock, run_virtual

TEXT = Pipeline(use_nmt=True, use_tts=True)
LONG = 1_000.0
"""Virtual seconds in which anything that will happen has happened."""


def settings_with(**overrides: Any) -> Settings:
    """The defaults, with dotted keys (dots written as __) set otherwise."""
    return _settings(json.dumps(overrides, sort_keys=True))


@cache
def _settings(overrides: str) -> Settings:
    """Settings never change, so that worlds of one kind can share them."""
    flags: dict[str, Any] = {}
    for key, value in json.loads(overrides).items():
        *path, leaf = key.split("__")
        level = flags
        for name in path:
            level = level.setdefault(name, {})
        level[leaf] = value
    return load_settings(flags=flags, environ={}).settings


class Errand:
    """A job that a caller asked for, and every end it was told to have."""

    def __init__(self, spec: JobSpec, clock: Clock) -> None:
        self.spec = spec
        self.asked_at = clock.monotonic()
        self.ended_at: float | None = None
        self._clock = clock
        self.job_id = JobId("")
        self.created = False
        self.refusal: DragomanError | None = None
        self.ends: list[JobRecord] = []
        self.partials: list[JobPartial] = []
        self.cancelled = False
        """A cancel of it was confirmed."""
        self.asker_is_gone = False
        """Its asker died: it can be told nothing."""
        self._ended = asyncio.Event()

    def told(self, record: JobRecord) -> None:
        if self.asker_is_gone:
            return
        self.ends.append(record)
        self.ended_at = self._clock.monotonic()
        self._ended.set()

    async def end(self, seconds: float = LONG) -> JobRecord:
        """The job's end, when it has come."""
        assert self.refusal is None, f"refused: {self.refusal}"
        async with asyncio.timeout(seconds):
            await self._ended.wait()
        return self.ends[0]

    @property
    def over(self) -> bool:
        return bool(self.ends) or self.refusal is not None

    @property
    def outcome(self) -> Outcome | None:
        return self.ends[0].outcome if self.ends else None

    @property
    def code(self) -> str | None:
        error = self.ends[0].error if self.ends else None
        return error.code if error else None


class World:
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
        self.seed = seed
        self.clock = clock
        self.settings = settings or settings_with()
        self.random = Random(seed)
        self.metrics = Metrics()
        pools = self.settings.scheduler.pools
        if ledger is None and wrap is not None:
            ledger = shared_ledger(clock, Random(seed + 1), self.settings)
            hub = MemoryHub(clock, Random(seed + 5), cluster_terms(self.settings))
            cluster = hub.peers(InstanceId(instance_id))
        kind: Callable[..., MemoryLedger] = MemoryLedger
        if answers_late is not None:
            kind = partial(DelayingLedger, delays=Random(seed + 4), seconds=answers_late)
        chosen: Any = ledger or kind(
            rules.ledger_terms(self.settings),
            InstanceId(instance_id),
            clock,
            Random(seed + 1),
            cell_size=pools.cell_size,
            max_cells=pools.max_cells,
        )
        self.ledger = chosen
        self.connections = Connections()
        self.plane = LivePlane(
            settings=self.settings,
            ledger=self.ledger if wrap is None else wrap(self.ledger),
            authenticator=authenticator or OpenAuthenticator(),
            connections=self.connections,
            metrics=self.metrics,
            instance_id=InstanceId(instance_id),
            clock=clock,
            randomness=Randomness(seed),
            secrets=Secrets(Random(f"{seed}/secrets")),
            tracing=tracing(clock),
            cluster=cluster,
        )
        self.network = MemoryNetwork(Random(seed + 2), delay=delay)
        self.nodes: dict[str, ScriptedNode] = {}
        self._made: list[ScriptedNode] = []
        self.errands: list[Errand] = []

    async def __aenter__(self) -> Self:
        await self.plane.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self._made:
            await node.stop()
        await self.network.close()
        await self.plane.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if error is None:
            assert not left, f"tasks left behind: {left}"

    # --- nodes -----------------------------------------------------------------------------------

    async def node(self, name: str, *, key: ApiKey | None = None, **manner: Any) -> ScriptedNode:
        """A node that is ready for work."""
        node = self.new_node(name, key=key, **manner)
        await node.connect()
        await self.until(lambda: node.status is NodeHealth.READY or not node.connected)
        return node

    def new_node(self, name: str, *, key: ApiKey | None = None, **manner: Any) -> ScriptedNode:
        """A node that has not connected yet."""
        node = ScriptedNode(
            name,
            self.network,
            self.plane.node_endpoint,
            Random(f"{self.seed}/{name}"),
            Manner(**manner),
            key,
        )
        self.nodes[name] = node
        self._made.append(node)
        return node

    def health(self, name: str) -> NodeHealth:
        return self.plane.registry.node(NodeId(name)).health.state

    # --- jobs ------------------------------------------------------------------------------------

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
    ) -> Errand:
        """Ask for a job; a refusal is kept in the errand."""
        errand = Errand(
            JobSpec(
                TenantId(tenant),
                RequestId(request_id),
                spec.pop("src_lang", "zh"),
                spec.pop("tgt_lang", "en"),
                spec.pop("pipeline", TEXT),
                job_class=JobClass.BATCH if batch else JobClass.LIVE,
                session_id=SessionId(session) if session else None,
                **spec,
            ),
            self.clock,
        )
        self.errands.append(errand)
        order = JobOrder(
            errand.spec,
            JobInput(text=text),
            may_wait=may_wait,
            on_end=errand.told,
            on_partial=errand.partials.append,
        )
        try:
            submitted = await self.plane.dispatcher.submit(order)
        except DragomanError as refusal:
            errand.refusal = refusal
        else:
            errand.job_id, errand.created = submitted.job_id, submitted.created
        return errand

    async def cancel(self, errand: Errand) -> bool:
        """Cancel a job; False when it had ended."""
        try:
            await self.plane.dispatcher.cancel(errand.job_id)
        except (JobEnded, NotFound):
            return False
        errand.cancelled = True
        return True

    # --- looking ---------------------------------------------------------------------------------

    async def until(
        self, condition: Callable[[], bool], seconds: float = LONG, *, every: float = 0.01
    ) -> None:
        """Wait for something to become true."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  # a condition on many things has no event
                await asyncio.sleep(every)

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
