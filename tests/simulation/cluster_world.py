"""Several instances over one ledger, one set of records and one hub, on the virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import TracebackType
from typing import Any, Protocol

from tests.simulation.shared_server import ForgetfulServer
from tests.simulation.world import Conveniences, settings_with

from dragoman.clock import Clock
from dragoman.live.gateway import Delay, LivePlane, instant
from dragoman.live.protocol import Message, SubProtocol, encode
from dragoman.settings import Settings
from dragoman.testing import (
    BRISK,
    MemoryCluster,
    MemoryInstance,
    SimulatedNode,
    SubmittedJob,
    VirtualClock,
    run_virtual,
)


class Hearing(Protocol):
    """A listener that keeps what it heard."""

    @property
    def heard(self) -> Sequence[Message]: ...


class Instance(MemoryInstance, Conveniences):
    """One instance of several: a world of its own, over what all of them share."""

    def _new_plane(self) -> LivePlane:
        plane = super()._new_plane()
        self.ledger = plane.ledger
        return plane


class ClusterWorld(MemoryCluster):
    """Instances, and nodes that may connect to any of them."""

    server: ForgetfulServer
    instances: dict[str, Instance]  # type: ignore[assignment]

    def __init__(
        self,
        names: Iterable[str] = ("a", "b"),
        *,
        seed: int,
        clock: Clock,
        settings: Settings,
        delay: Delay = instant,
    ) -> None:
        super().__init__(names, seed=seed, clock=clock, settings=settings, delay=delay)
        self.clients: list[Hearing] = []
        self.jobs: list[SubmittedJob] = []

    def _new_server(self) -> ForgetfulServer:
        return ForgetfulServer(self.clock, self.seed, self.settings)

    def _new_instance(self, name: str, seed: int, clock: Clock) -> Instance:
        return Instance(
            name,
            seed=seed,
            clock=clock,
            settings=self.settings,
            server=self.server,
            delay=self.delay,
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

    async def begin(self, name: str, clock: Clock | None = None) -> Instance:
        await super().begin(name, clock)
        return self.instances[name]

    def __getitem__(self, name: str) -> Instance:
        return self.instances[name]

    async def node(self, name: str, at: str, **manner: Any) -> SimulatedNode:
        """A node that is ready for work, as every instance knows."""
        return await self.add_simulated_node(name, at, **manner)

    async def node_anywhere(self, name: str, at: str, **manner: Any) -> SimulatedNode:
        """A node that its own instance knows to be ready."""
        return await self.add_unannounced_node(name, at, **manner)

    def new_node(self, name: str, at: str, **manner: Any) -> SimulatedNode:
        """A node that has not connected yet."""
        return self.new_simulated_node(name, at, **manner)

    async def submit(self, at: str, request_id: str, **order: Any) -> SubmittedJob:
        errand = await self.instances[at].submit(request_id, **order)
        self.jobs.append(errand)
        return errand

    async def held(self) -> int:
        return (await self.size())["held"]

    async def size(self) -> Mapping[str, int]:
        return await self.ledger.size()

    async def pass_time(self, seconds: float) -> None:
        """Let the world go on for a while."""
        await asyncio.sleep(seconds)

    def digest(self) -> str:
        """All that nodes, clients and askers heard, and when the story ended, in a few letters."""
        digest = blake2b(repr(self.clock.monotonic()).encode(), digest_size=16)
        listeners: list[Hearing] = [*self.nodes.values(), *self.clients]
        for listener in listeners:
            for message in listener.heard:
                digest.update(str(encode(message, SubProtocol.JSON)).encode())
        for errand in self.jobs:
            end = (errand.job_id, errand.ended_at, errand.outcome, errand.refusal)
            digest.update(repr(end).encode())
        for instance in self.instances.values():
            digest.update(f"{instance.name} {instance.access.operations}".encode())
        return digest.hexdigest()


def play_together(
    story: Callable[[ClusterWorld], Awaitable[None]],
    *,
    names: Iterable[str] = ("a", "b"),
    seed: int = 1,
    delay: Delay = instant,
    **settings: Any,
) -> str:
    """Act a story of several instances out on the virtual clock; answers the digest of it."""

    async def main() -> str:
        clock = VirtualClock(asyncio.get_running_loop())
        async with ClusterWorld(
            names,
            seed=seed,
            clock=clock,
            settings=settings_with(**{**BRISK, **settings}),
            delay=delay,
        ) as world:
            await story(world)
        return world.digest()

    return run_virtual(main, seed=seed)
