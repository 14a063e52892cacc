"""A whole scheduler in memory, for tests on the virtual clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from random import Random
from types import TracebackType
from typing import Any, Self, Unpack

from dragoman.auth import ApiKey, Authenticator, OpenAuthenticator
from dragoman.clock import Clock
from dragoman.errors import DragomanError, JobEnded, NotFound
from dragoman.ids import InstanceId, NodeId, RequestId, TenantId
from dragoman.live.dispatch import JobOrder, MemoryLedger
from dragoman.live.gateway import Connections, Delay, LivePlane, MemoryNetwork, instant, rules
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import JobClass, NodeHealth, Pipeline
from dragoman.observability import Metrics
from dragoman.randomness import Randomness, Secrets
from dragoman.sdk import NodeConnect, SessionConnect
from dragoman.settings import Settings, load_settings
from dragoman.testing.jobs import SubmittedJob
from dragoman.testing.links import MemoryConnect, MemorySessionConnect
from dragoman.testing.nodes import Behaviour, BehaviourOptions, SimulatedNode
from dragoman.testing.site import MemorySite


def settings_with(overrides: Mapping[str, Any] | None = None) -> Settings:
    """The default settings, with some set otherwise: ``{"scheduler.job_timeout.ack_seconds": 2}``.

    Neither a file nor the environment is read.
    """
    return _settings(json.dumps(dict(overrides or {}), sort_keys=True))


@cache
def _settings(overrides: str) -> Settings:
    """Settings never change, so schedulers of one kind can share them."""
    flags: dict[str, Any] = {}
    for key, value in json.loads(overrides).items():
        *path, leaf = key.split(".")
        level = flags
        for name in path:
            level = level.setdefault(name, {})
        level[leaf] = value
    return load_settings(flags=flags, environ={}).settings


class MemoryScheduler(MemorySite):
    """One scheduler with its network, without sockets: ``async with MemoryScheduler() as it``.

    It is the scheduler that `dragoman serve` runs, with its live plane in memory and no HTTP.
    Nodes and clients of the SDK connect to it with `connect_node` and `connect_session`.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        authenticator: Authenticator | None = None,
        delay: Delay = instant,
        codec: bool = True,
        instance_id: str = "here",
    ) -> None:
        """Nothing runs yet. `settings` are whole or a few dotted keys; `delay` is the network's.

        With `codec` off, what simulated nodes hear and say is neither written nor read as frames:
        quicker, where a test is about many of them and not about messages.
        """
        super().__init__(seed, clock)
        self.settings = settings if isinstance(settings, Settings) else settings_with(settings)
        self.instance_id = InstanceId(instance_id)
        self.metrics = Metrics()
        self.connections = Connections()
        self.authenticator = authenticator or OpenAuthenticator()
        self.plane = self._new_plane()
        self.network = MemoryNetwork(Random(self.seed + 2), delay=delay, codec=codec)
        """Its `links` are the open connections, which a test may pause or cut."""
        self.nodes: dict[str, SimulatedNode] = {}
        """The simulated nodes by name, the latest of each."""
        self.jobs: list[SubmittedJob] = []
        """Everything that was asked for with `submit_job`."""
        self._simulated: list[SimulatedNode] = []

    def _new_plane(self) -> LivePlane:
        """The live plane; the project's own tests put another together."""
        pools = self.settings.scheduler.pools
        ledger = MemoryLedger(
            rules.ledger_terms(self.settings),
            self.instance_id,
            self.clock,
            Random(self.seed + 1),
            cell_size=pools.cell_size,
            max_cells=pools.max_cells,
        )
        return LivePlane(ledger=ledger, **self._plane_parts())

    def _plane_parts(self) -> Any:
        """What a plane is made of, except for where it keeps things."""
        return {
            "settings": self.settings,
            "authenticator": self.authenticator,
            "connections": self.connections,
            "metrics": self.metrics,
            "instance_id": self.instance_id,
            "clock": self.clock,
            "randomness": Randomness(self.seed),
            "secrets": Secrets(Random(f"{self.seed}/secrets")),
        }

    async def __aenter__(self) -> Self:
        await self.plane.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop_nodes()
        await self.network.close()
        await self.plane.stop()

    async def _stop_nodes(self) -> None:
        await self._stop_serving()
        for node in self._simulated:
            await node.stop()

    @property
    def connect_node(self) -> NodeConnect:
        return MemoryConnect(self.network, self.plane.node_endpoint)

    @property
    def connect_session(self) -> SessionConnect:
        return MemorySessionConnect(self.network, self.plane.session_endpoint)

    # --- simulated nodes -------------------------------------------------------------------------

    async def add_simulated_node(
        self, name: str, *, key: ApiKey | None = None, **behaviour: Unpack[BehaviourOptions]
    ) -> SimulatedNode:
        """Connect a node that behaves as told, and wait until it is ready or refused."""
        node = self.new_simulated_node(name, key=key, **behaviour)
        await node.connect()
        await self.until(lambda: node.status is NodeHealth.READY or not node.connected)
        return node

    def new_simulated_node(
        self, name: str, *, key: ApiKey | None = None, **behaviour: Unpack[BehaviourOptions]
    ) -> SimulatedNode:
        """A simulated node that has not connected yet."""
        node = SimulatedNode(
            name,
            self.network,
            self.plane.node_endpoint,
            Random(f"{self.seed}/{name}"),
            Behaviour(**behaviour),
            key,
        )
        self.nodes[name] = node
        self._simulated.append(node)
        return node

    def health(self, name: str) -> NodeHealth:
        """How the scheduler sees a node."""
        return self.plane.registry.node(NodeId(name)).health.state

    # --- jobs without a session ------------------------------------------------------------------

    async def submit_job(
        self,
        text: str | None = None,
        *,
        src_lang: str,
        tgt_lang: str,
        audio: bytes | None = None,
        request_id: str | None = None,
        pipeline: Pipeline | None = None,
        features: tuple[str, ...] = (),
        batch: bool = False,
        may_wait: bool = False,
        tenant: str = "default",
    ) -> SubmittedJob:
        """Ask for a job, as `POST /jobs` does; a refusal is kept in the answer.

        Without a `pipeline`, text is translated, and audio is recognised, translated and spoken.
        """
        spoken = audio is not None
        spec = JobSpec(
            TenantId(tenant),
            RequestId(request_id or f"request-{len(self.jobs)}"),
            src_lang,
            tgt_lang,
            pipeline or Pipeline(use_asr=spoken, use_nmt=src_lang != tgt_lang, use_tts=spoken),
            job_class=JobClass.BATCH if batch else JobClass.LIVE,
            features=features,
        )
        return await self._submit_order(spec, JobInput(audio, text), may_wait=may_wait)

    async def _submit_order(
        self, spec: JobSpec, given: JobInput, *, may_wait: bool = False
    ) -> SubmittedJob:
        """Ask for a job whose every field is given."""
        job = SubmittedJob(spec, self.clock)
        self.jobs.append(job)
        order = JobOrder(
            spec, given, may_wait=may_wait, on_end=job.told, on_partial=job.partials.append
        )
        try:
            submitted = await self.plane.dispatcher.submit(order)
        except DragomanError as refusal:
            job.refusal = refusal
        else:
            job.job_id, job.created = submitted.job_id, submitted.created
        return job

    async def cancel(self, job: SubmittedJob) -> bool:
        """Cancel a job; False when it had ended."""
        try:
            await self.plane.dispatcher.cancel(job.job_id)
        except (JobEnded, NotFound):
            return False
        job.cancelled = True
        return True
