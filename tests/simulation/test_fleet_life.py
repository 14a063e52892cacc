"""Nodes that come, drain, change, go and are forgotten; names that have an owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.world import World, play

from dragoman.auth import ApiKey, Authenticator, Principal, Role
from dragoman.ids import AttemptId, JobId, KeyId, NodeId, TenantId
from dragoman.live.gateway import ConnectionClosed
from dragoman.live.protocol import (
    TO_NODE,
    Error,
    JobCancel,
    NodeDrain,
    NodeError,
    NodeHealth,
    NodeStatus,
    Outcome,
    ResourceUsage,
    RunningJob,
    ServiceStatus,
    ServiceType,
)
from dragoman.testing import SERVICES, seconds, service


def test_a_silent_node_is_closed_with_4408_and_goes_offline() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        node.behaviour.beats = False
        await world.until(lambda: node.close_code is not None)
        assert node.close_code == 4408
        assert world.health("n") is NodeHealth.OFFLINE

    play(story)


def test_a_connection_that_never_registers_is_closed_too() -> None:
    async def story(world: World) -> None:
        client = await world.network.connect(world.plane.node_endpoint, TO_NODE)
        with pytest.raises(ConnectionClosed) as closed:
            await client.receive()
        assert closed.value.code == 4408
        assert world.clock.monotonic() == pytest.approx(45.0, abs=1.0)

    play(story)


def test_an_operator_s_drain_outlives_a_reconnect_and_ends_with_resume() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", service=seconds(3))
        job = await world.submit("r")
        await world.plane.registry.drain(NodeId("n"))
        assert world.health("n") is NodeHealth.DRAINING
        refused = await world.submit("next")
        assert refused.refusal is not None
        assert refused.refusal.details["reasons"] == {"not_ready": 1}
        await job.end()
        assert job.outcome is Outcome.SUCCESS, "what it runs is finished"
        node.cut()
        await node.connect()
        await world.pass_time(5)
        assert world.health("n") is NodeHealth.DRAINING
        await world.plane.registry.resume(NodeId("n"))
        await world.until(lambda: world.health("n") is NodeHealth.READY, 1)
        again = await world.submit("again")
        await again.end()

    play(story)


def test_a_node_s_own_drain_ends_with_its_connection() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        await node.say(NodeDrain("going home"))
        await world.until(lambda: world.health("n") is NodeHealth.DRAINING)
        node.cut()
        await node.connect()
        await world.until(lambda: world.health("n") is NodeHealth.READY, 5)

    play(story)


def test_fewer_slots_cancel_nothing_and_are_kept_to() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=3, service=seconds(4))
        jobs = [await world.submit(f"r{number}") for number in range(3)]
        await world.pass_time(1)
        node.behaviour.slots = 1
        await node.beat(slots=1)
        await world.pass_time(0.1)
        assert (await world.submit("over")).refusal is not None
        for job in jobs:
            await job.end()
            assert job.outcome is Outcome.SUCCESS
        assert (await world.submit("one")).refusal is None
        assert (await world.submit("two")).refusal is not None

    play(story)


def test_more_slots_call_those_who_wait() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(5))
        await world.submit("first")
        job = await world.submit("second", may_wait=True)
        node.behaviour.slots = 2
        await node.beat(slots=2)
        await job.end()
        assert (job.ended_at or 0) - job.asked_at < 6

    play(story)


def test_unknown_work_is_cancelled_and_holds_a_slot_until_it_stops() -> None:
    async def story(world: World) -> None:
        node = world.new_node("n", slots=1, cancel_seconds=3)
        unknown = RunningJob(JobId("j-" + "0" * 26), AttemptId("a-" + "0" * 24))
        node.working[unknown.attempt_id] = unknown
        await node.connect()
        await world.until(lambda: node.status is NodeHealth.READY)
        assert node.ack is not None
        assert node.ack.cancel == (unknown,)
        assert await world.held() == 1
        assert (await world.submit("r")).refusal is not None
        await world.pass_time(4)
        assert await world.held() == 0

    play(story)


def test_unknown_work_that_a_heartbeat_names_is_told_to_stop() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1)
        unknown = RunningJob(JobId("j-" + "0" * 26), AttemptId("a-" + "0" * 24))
        node.working[unknown.attempt_id] = unknown
        await node.beat()
        await world.until(lambda: not node.working)
        assert any(isinstance(message, JobCancel) for message in node.heard)
        await world.pass_time(1)
        assert await world.held() == 0

    play(story)


def test_an_offline_node_is_forgotten_after_a_while() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        node.cut()
        await world.pass_time(50)
        assert len(world.plane.registry) == 1
        assert (await world.submit("known")).refusal.code == "NO_AVAILABLE_NODE"  # type: ignore[union-attr]
        await world.pass_time(60)
        assert len(world.plane.registry) == 0
        assert (await world.size())["nodes"] == 0
        assert (await world.submit("gone")).refusal.code == "PAIR_UNSUPPORTED"  # type: ignore[union-attr]
        assert not +world.plane.registry.by_status

    play(story, scheduler__node_health__forget_offline_seconds=100)


def test_a_fleet_without_room_refuses_a_registration() -> None:
    async def story(world: World) -> None:
        await world.node("a")
        await world.node("b")
        late = await world.node("c")
        assert late.close_code == 1008
        assert [message.code for message in late.heard if isinstance(message, Error)] == [
            "FLEET_FULL"
        ]
        assert world.plane.snapshots.current.cells.keys() == {0, 1}

    play(story, scheduler__pools__cell_size=1, scheduler__pools__max_cells=2)


def test_a_busy_machine_is_left_out_without_a_change_of_health() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        await node.beat(ResourceUsage(cpu_percent=100.0, mem_percent=1.0))
        await world.pass_time(0.1)
        assert (await world.submit("one")).refusal is None, "one busy heartbeat is no mean"
        for _ in range(3):
            await node.beat(ResourceUsage(cpu_percent=85.0, mem_percent=1.0))
        await world.pass_time(2)
        assert world.health("n") is NodeHealth.READY
        refused = await world.submit("r")
        assert refused.refusal is not None
        assert refused.refusal.details["reasons"] == {"resource_threshold": 1}
        [*_, told] = [message for message in node.heard if isinstance(message, NodeStatus)]
        assert told.status is NodeHealth.READY
        assert told.reason is not None
        assert told.reason.startswith("the machine is too busy: cpu at ")
        version = world.plane.snapshots.current.version
        await node.beat(ResourceUsage(cpu_percent=99.0, mem_percent=1.0))
        await world.pass_time(0.1)
        assert world.plane.snapshots.current.version == version, "the verdict did not change"
        await node.beat()
        await world.pass_time(0.1)
        assert (await world.submit("again")).refusal is None

    play(story)


def test_three_bad_heartbeats_degrade_a_node_and_a_good_one_restores_it() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        stopped = tuple(service(kind, ServiceStatus.STOPPED) for kind in (ServiceType.NMT,))
        await node.beat(services=stopped)
        await node.say(NodeError("DISK", "full"))
        await world.pass_time(0.1)
        assert world.health("n") is NodeHealth.READY
        await node.client.send_frame('{"type": "node_heartbeat", "running": 3}')
        await world.until(lambda: world.health("n") is NodeHealth.DEGRADED, 1)
        await node.beat(services=SERVICES)
        await world.until(lambda: world.health("n") is NodeHealth.READY, 1)

    play(story)


# --- whose name it is ---------------------------------------------------------------------------


class Keys(Authenticator):
    """Knows a few keys, each of the tenant at its place."""

    def __init__(self, *tenants: str) -> None:
        self.keys = [ApiKey.generate() for _ in tenants]
        self._tenants = tenants

    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        assert key is not None
        number = self.keys.index(key)
        return Principal(KeyId(f"key-{number}"), Role.NODE, TenantId(self._tenants[number]))

    def watch(self, principal: Principal, on_revoked: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def __aexit__(self, *_: object) -> None: ...


def test_a_node_id_belongs_to_the_key_that_first_used_it() -> None:
    keys = Keys("tenant-0", "tenant-1", "tenant-0")

    async def story(world: World) -> None:
        first, second, third = keys.keys
        node = await world.node("n", key=first)
        thief = world.new_node("n", key=second)
        await thief.connect()
        await world.until(lambda: thief.close_code is not None)
        assert thief.close_code == 1008
        assert [m.code for m in thief.heard if isinstance(m, Error)] == ["NODE_ID_CONFLICT"]
        assert node.connected, "the rightful one is not disturbed"
        await thief.connect(key=second, token="0" * 64)
        await world.until(lambda: thief.close_code is not None)
        assert node.connected, "a made-up token helps nobody"
        node.cut()
        await thief.connect(key=second, token=node.token)
        await world.until(lambda: thief.close_code is not None)
        assert thief.ack is None, "a token is good for the tenant it was given to"
        colleague = world.new_node("n", key=third)
        await colleague.connect(key=third, token=node.token)
        await world.until(lambda: colleague.ack is not None, 5)

    play(story, authenticator=keys, auth__mode="keys")


def test_a_private_node_takes_only_its_own_tenant_s_jobs_that_name_it() -> None:
    keys = Keys("tenant-0", "tenant-1")

    async def story(world: World) -> None:
        await world.node("mine", key=keys.keys[0], public=False, slots=1, service=seconds(3))
        unnamed = await world.submit("a", tenant="tenant-0")
        assert unnamed.refusal is not None
        assert unnamed.refusal.details["reasons"] == {"not_public": 1}
        foreign = await world.submit("b", tenant="tenant-1", preferred_node_id="mine")
        assert foreign.refusal is not None
        own = await world.submit("c", tenant="tenant-0", preferred_node_id="mine")
        assert own.refusal is None
        full = await world.submit("d", tenant="tenant-0", preferred_node_id="mine")
        assert full.refusal is not None
        assert full.refusal.code == "NO_CAPACITY"
        assert full.refusal.details["reasons"] == {"no_free_slot": 1}
        await own.end()

    play(story, authenticator=keys, auth__mode="keys")
