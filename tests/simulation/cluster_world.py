"""Several instances over one ledger, one set of records and one hub, on the virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self, cast

from tests.simulation.doors import Door
from tests.simulation.nodes import ScriptedNode
from tests.simulation.shared_server import SharedServer
from tests.simulation.world import LONG, Errand, World, settings_with

from dragoman.clock import Clock
from dragoman.ids import InstanceId
from dragoman.live.cluster import Cluster
from dragoman.live.gateway.memory import Delay, instant
from dragoman.live.protocol import Message, NodeHealth, SubProtocol, encode
from dragoman.live.shared import SharedLedger
from dragoman.settings import Settings
from dragoman.virtual import VirtualClock, run_virtual

BRISK: dict[str, Any] = {
    "cluster__presence_ttl_seconds": 3,
    "cluster__owner_ttl_seconds": 5,
    "cluster__reconcile_seconds": 1,
    "cluster__reclaim_idle_ms": 1000,
}
"""A cluster that notices soon what is the matter."""


class Hearing(Protocol):
    """A listener that keeps what it heard."""

    @property
    def heard(self) -> Sequence[Message]: ...


class Instance(World):
    """One instance of several: a world of its own, over what all of them share."""

    def __init__(
        self,
        name: str,
        *,
        seed: int,
        clock: Clock,
        settings: Settings,
        server: SharedServer,
        delay: Delay,
    ) -> None:
        self.name = InstanceId(name)
        self.door = Door(server, Random(f"{seed}/door/{name}"))
        self.hub_place = server.hub.peers(self.name)
        self.alive = True
        super().__init__(
            seed=seed,
            clock=clock,
            settings=settings,
            ledger=cast(SharedLedger, self.door.to(server.ledger, "stop")),
            cluster=cast(Cluster, self.door.to(self.hub_place, "close", "listen")),
            instance_id=name,
            delay=delay,
        )

    async def stop(self) -> None:
        """Stop as a server does, after its drain."""
        self.alive = False
        await self.network.close()
        await self.plane.stop()

    async def die(self) -> None:
        """Stop at once: no socket, no task and no word is left."""
        self.door.dead = True
        self.door.unblock()
        for errand in self.errands:
            errand.asker_is_gone = True
        self.connections.refuse_new()
        await self.stop()


class ClusterWorld:
    """Instances, and nodes that may connect to any of them."""

    def __init__(
        self,
        names: Iterable[str] = ("a", "b"),
        *,
        seed: int,
        clock: Clock,
        settings: Settings,
        delay: Delay = instant,
    ) -> None:
        self.seed = seed
        self.clock = clock
        self.settings = settings
        self.delay = delay
        self.random = Random(seed)
        self.server = SharedServer(clock, seed, settings)
        self.ledger = self.server.ledger
        self.hub = self.server.hub
        self.instances: dict[str, Instance] = {}
        """Those that live."""
        self.nodes: dict[str, ScriptedNode] = {}
        self.clients: list[Hearing] = []
        self.errands: list[Errand] = []
        self._names = tuple(names)
        self._begun = 0
        self._dying: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        for name in self._names:
            await self.begin(name)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes.values():
            await node.stop()
        for instance in list(self.instances.values()):
            instance.door.dies_at = 0
            await instance.stop()
        await asyncio.gather(*self._dying)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if error is None:
            assert not left, f"tasks left behind: {left}"

    def __getitem__(self, name: str) -> Instance:
        return self.instances[name]

    # --- instances -------------------------------------------------------------------------------

    async def begin(self, name: str, clock: Clock | None = None) -> Instance:
        """A new instance, or a new life of one that died; its machine's clock may be its own."""
        self._begun += 1
        instance = Instance(
            name,
            seed=self.seed + 1000 * self._begun,
            clock=clock or self.clock,
            settings=self.settings,
            server=self.server,
            delay=self.delay,
        )
        instance.door.on_death = lambda: self._died(name)
        await instance.plane.start()
        self.instances[name] = instance
        return instance

    async def kill(self, name: str) -> None:
        """The process is gone, at this very moment."""
        await self.instances.pop(name).die()

    async def leave(self, name: str) -> None:
        """The process ends in order, whether or not it has drained."""
        await self.instances.pop(name).stop()

    def pause(self, name: str) -> None:
        """The process is stopped: nothing gets in or out."""
        instance = self.instances[name]
        instance.door.block()
        self.hub.faults.pause(instance.name)
        for link in instance.network.links:
            link.to_server.pause()
            link.to_client.pause()

    def resume(self, name: str) -> None:
        """The process goes on, with all that was held back."""
        instance = self.instances[name]
        for link in instance.network.links:
            link.to_client.resume()
            link.to_server.resume()
        self.hub.faults.resume(instance.name)
        instance.door.unblock()

    def cut_hub(self, name: str) -> None:
        """The instance reaches the ledger, but none of its peers."""
        instance = self.instances[name]
        instance.door.cut.add(instance.hub_place)

    def mend_hub(self, name: str) -> None:
        instance = self.instances[name]
        instance.door.cut.discard(instance.hub_place)

    def cut_off(self, name: str) -> None:
        """The instance does not reach the server; its sockets stay."""
        self.instances[name].door.shut = True

    def join_again(self, name: str) -> None:
        self.instances[name].door.shut = False

    def die_at(self, name: str, operation: int, *, before: bool) -> None:
        """Let an instance die with one of the next things it does to the ledger or the hub."""
        door = self.instances[name].door
        door.dies_at, door.dies_before = door.operations + operation, before

    def is_present(self, name: str) -> bool:
        """Whether the others count an instance among them."""
        instance = self.hub.instances.get(InstanceId(name))
        return instance is not None and instance.is_alive(self.clock.now_ms())

    def _died(self, name: str) -> None:
        instance = self.instances.pop(name)
        task = asyncio.get_running_loop().create_task(instance.die())
        self._dying.add(task)
        task.add_done_callback(self._dying.discard)

    # --- nodes -----------------------------------------------------------------------------------

    async def node(self, name: str, at: str, **manner: Any) -> ScriptedNode:
        """A node that is ready for work, as everybody knows."""
        node = self.new_node(name, at, **manner)
        await node.connect()
        await self.until(lambda: all(self.sees(other, name) for other in self.instances))
        return node

    async def node_anywhere(self, name: str, at: str, **manner: Any) -> ScriptedNode:
        """A node that its own instance knows to be ready."""
        node = self.new_node(name, at, **manner)
        await node.connect()
        await self.until(lambda: node.status is NodeHealth.READY)
        return node

    def new_node(self, name: str, at: str, **manner: Any) -> ScriptedNode:
        """A node that has not connected yet."""
        node = self.instances[at].new_node(name, **manner)
        self.nodes[name] = node
        return node

    async def move(self, name: str, to: str) -> None:
        """Have a node connect to another instance, with the work in hand."""
        instance = self.instances[to]
        self.nodes[name].goes_to(instance.network, instance.plane.node_endpoint)
        await self.nodes[name].connect()

    def sees(self, instance: str, node: str, ready: bool = True) -> bool:
        """Whether an instance has a node among those that get jobs."""
        view = self.instances[instance].plane.snapshots.find(self.nodes[node].node_id)
        if view is None:
            return False
        return bool(view.mask((self.nodes[node].node_id,)) & view.ready) is ready

    def status(self, instance: str, node: str) -> NodeHealth:
        return self.instances[instance].plane.registry.known(self.nodes[node].node_id).status

    # --- jobs and time ---------------------------------------------------------------------------

    async def submit(self, at: str, request_id: str, **order: Any) -> Errand:
        errand = await self.instances[at].submit(request_id, **order)
        self.errands.append(errand)
        return errand

    async def until(
        self, condition: Callable[[], bool], seconds: float = LONG, *, every: float = 0.01
    ) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  # a condition on many things has no event
                await asyncio.sleep(every)

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
        for errand in self.errands:
            end = (errand.job_id, errand.ended_at, errand.outcome, errand.refusal)
            digest.update(repr(end).encode())
        for instance in self.instances.values():
            digest.update(f"{instance.name} {instance.door.operations}".encode())
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
