"""Several schedulers in memory that work as one cluster, for tests on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, cast

from dragoman.clock import Clock
from dragoman.ids import InstanceId
from dragoman.live.cluster import Cluster
from dragoman.live.gateway import Delay, LivePlane, instant
from dragoman.live.ledger import Ledger
from dragoman.live.protocol import Message, NodeHealth
from dragoman.live.sessions import SessionRecords
from dragoman.sdk import Connect, Link, NodeConnect, SessionConnect, Unreachable
from dragoman.settings import Settings
from dragoman.task_set import TaskSet
from dragoman.testing.nodes import BehaviourOptions, SimulatedNode
from dragoman.testing.scheduler import MemoryScheduler, settings_with
from dragoman.testing.shared import ServerAccess, SharedServer
from dragoman.testing.site import MemorySite

M = TypeVar("M", bound=Message)

BRISK: Mapping[str, Any] = {
    "cluster.presence_ttl_seconds": 3,
    "cluster.owner_ttl_seconds": 5,
    "cluster.reconcile_seconds": 1,
    "cluster.reclaim_idle_ms": 1000,
}
"""Settings of a cluster that notices soon what is the matter."""


class MemoryInstance(MemoryScheduler):
    """One instance of several: a scheduler of its own, over what all of them share."""

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
        self.access = ServerAccess(server, Random(f"{seed}/door/{name}"))
        self.hub_place = server.hub.peers(self.name)
        self.alive = True
        self._server = server
        super().__init__(seed=seed, clock=clock, settings=settings, delay=delay, instance_id=name)

    def _new_plane(self) -> LivePlane:
        return LivePlane(
            ledger=cast(Ledger, self.access.to(self._server.ledger)),
            records=cast(SessionRecords, self.access.to(self._server.records)),
            cluster=cast(Cluster, self.access.to(self.hub_place)),
            **self._plane_parts(),
        )

    async def stop(self) -> None:
        """Stop as a server does, after its drain."""
        self.alive = False
        await self.network.close()
        await self.plane.stop()

    async def die(self) -> None:
        """Stop at once: no socket, no task and no word is left."""
        self.access.dead = True
        self.access.unblock()
        for job in self.jobs:
            job.asker_is_gone = True
        self.connections.refuse_new()
        await self.stop()


class _AnyInstance(Generic[M]):
    """Connects to one of the instances that live, as through a load balancer."""

    def __init__(
        self,
        cluster: MemoryCluster,
        connect_to: Callable[[MemoryInstance], Connect[M]],
    ) -> None:
        self._cluster = cluster
        self._connect_to = connect_to

    async def __call__(self) -> Link[M]:
        living = sorted(self._cluster.instances)
        if not living:
            raise Unreachable("no instance of the cluster is alive")
        return await self._connect_to(self._cluster[self._cluster.random.choice(living)])()


class MemoryCluster(MemorySite):
    """Instances over one server in memory: ``async with MemoryCluster(["a", "b"]) as cluster``.

    `connect_node` and `connect_session` reach any instance that lives; those of ``cluster["a"]``
    reach that one.
    """

    def __init__(
        self,
        names: Iterable[str] = ("a", "b"),
        *,
        seed: int | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        delay: Delay = instant,
    ) -> None:
        """Nothing runs yet. Without `settings` they are `BRISK`: a death is noticed in seconds."""
        super().__init__(seed, clock)
        if not isinstance(settings, Settings):
            settings = settings_with({**BRISK, **(settings or {})})
        self.settings = settings
        self.delay = delay
        self.server = self._new_server()
        self.ledger = self.server.ledger
        self.records = self.server.records
        self.hub = self.server.hub
        self.instances: dict[str, MemoryInstance] = {}
        """Those that live."""
        self.nodes: dict[str, SimulatedNode] = {}
        self._names = tuple(names)
        self._begun: list[MemoryInstance] = []
        self._dying = TaskSet()

    def _new_server(self) -> SharedServer:
        return SharedServer(self.clock, self.seed, self.settings)

    def _new_instance(self, name: str, seed: int, clock: Clock) -> MemoryInstance:
        return MemoryInstance(
            name,
            seed=seed,
            clock=clock,
            settings=self.settings,
            server=self.server,
            delay=self.delay,
        )

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
        await self._stop_serving()
        for instance in self._begun:
            await instance._stop_nodes()
        for instance in list(self.instances.values()):
            instance.access.dies_at = 0
            await instance.stop()
        await self._dying.wait()

    @property
    def connect_node(self) -> NodeConnect:
        return _AnyInstance(self, lambda instance: instance.connect_node)

    @property
    def connect_session(self) -> SessionConnect:
        return _AnyInstance(self, lambda instance: instance.connect_session)

    def __getitem__(self, name: str) -> MemoryInstance:
        return self.instances[name]

    # --- instances -------------------------------------------------------------------------------

    async def begin(self, name: str, clock: Clock | None = None) -> MemoryInstance:
        """Start an instance, or one that died anew; its machine's clock may be its own."""
        number = len(self._begun) + 1
        instance = self._new_instance(name, self.seed + 1000 * number, clock or self.clock)
        self._begun.append(instance)
        instance.access.on_death = lambda: self._died(name)
        await instance.plane.start()
        self.instances[name] = instance
        return instance

    async def kill(self, name: str) -> None:
        """End an instance at once, without a goodbye."""
        await self.instances.pop(name).die()

    async def leave(self, name: str) -> None:
        """Stop an instance in order, whether or not it has drained."""
        await self.instances.pop(name).stop()

    def pause(self, name: str) -> None:
        """Nothing gets in or out, as when the process is stopped."""
        instance = self.instances[name]
        instance.access.block()
        self.hub.faults.pause(instance.name)
        for link in instance.network.links:
            link.to_server.pause()
            link.to_client.pause()

    def resume(self, name: str) -> None:
        """Let an instance go on, with all that was held back."""
        instance = self.instances[name]
        for link in instance.network.links:
            link.to_client.resume()
            link.to_server.resume()
        self.hub.faults.resume(instance.name)
        instance.access.unblock()

    def cut_hub(self, name: str) -> None:
        """The instance reaches the ledger, but none of its peers."""
        instance = self.instances[name]
        instance.access.cut.add(instance.hub_place)

    def mend_hub(self, name: str) -> None:
        """Undo `cut_hub`."""
        instance = self.instances[name]
        instance.access.cut.discard(instance.hub_place)

    def cut_off(self, name: str) -> None:
        """The instance does not reach the server; its sockets stay."""
        self.instances[name].access.shut = True

    def join_again(self, name: str) -> None:
        """Undo `cut_off`."""
        self.instances[name].access.shut = False

    def die_at(self, name: str, operation: int, *, before: bool) -> None:
        """Let an instance die with one of the next things it does to the ledger or the hub."""
        access = self.instances[name].access
        access.dies_at, access.dies_before = access.operations + operation, before

    def is_present(self, name: str) -> bool:
        """Whether the others count an instance among them."""
        instance = self.hub.instances.get(InstanceId(name))
        return instance is not None and instance.is_alive(self.clock.now_ms())

    def _died(self, name: str) -> None:
        instance = self.instances.pop(name)
        self._dying.spawn(instance.die())

    # --- nodes -----------------------------------------------------------------------------------

    async def add_simulated_node(
        self, name: str, at: str, **behaviour: Unpack[BehaviourOptions]
    ) -> SimulatedNode:
        """A node that is ready for work, as every instance knows."""
        node = self.new_simulated_node(name, at, **behaviour)
        await node.connect()
        await self.until(lambda: all(self.sees(other, name) for other in self.instances))
        return node

    async def add_unannounced_node(
        self, name: str, at: str, **behaviour: Unpack[BehaviourOptions]
    ) -> SimulatedNode:
        """A node that its own instance knows to be ready."""
        node = self.new_simulated_node(name, at, **behaviour)
        await node.connect()
        await self.until(lambda: node.status is NodeHealth.READY)
        return node

    def new_simulated_node(
        self, name: str, at: str, **behaviour: Unpack[BehaviourOptions]
    ) -> SimulatedNode:
        """A node that has not connected yet."""
        node = self.instances[at].new_simulated_node(name, **behaviour)
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
        """How an instance sees a node."""
        return self.instances[instance].plane.registry.known(self.nodes[node].node_id).status
