"""Clients that go on with their session at another instance."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster_world import ClusterWorld
from tests.simulation.speakers import Speaker

from dragoman.ids import SessionId
from dragoman.live.protocol import SessionInitAck


class Roamer(Speaker):
    """A client that may connect to any instance."""

    def __init__(self, world: ClusterWorld, at: str, **options: Any) -> None:
        super().__init__(world[at], **options)
        self._cluster = world
        world.clients.append(self)
        self.session_id = SessionId("")
        self.sessions_lost = 0
        """How often it was told that its session is gone: then it says all again in a new one."""

    async def start(self) -> SessionInitAck:
        """Open a session."""
        ack = await self.connect()
        assert ack is not None, f"the session was refused: {self.heard}"
        return ack

    async def connect(self, **init: Any) -> SessionInitAck | None:
        ack = await super().connect(**init)
        if ack is not None and ack.session_id != self.session_id:
            if self.session_id:
                self.sessions_lost += 1
                self.ends.clear()
                self.repeated.clear()
            self.session_id = ack.session_id
        return ack

    def turn_to(self, instance: str) -> None:
        """Connect there from now on."""
        self._world = self._cluster[instance]

    async def go_on_at(self, instance: str) -> SessionInitAck:
        """Resume at an instance, and say again what it does not have."""
        self.turn_to(instance)
        ack = await self.come_back()
        assert ack is not None, f"the session was refused: {self.heard[-1:]}"
        return ack

    def check(self, utterances: int) -> None:
        """Every utterance ended once, in order, and under one number."""
        indexes = [end.utterance_index for end in self.ends]
        assert indexes == list(range(utterances)), indexes
        numbers = [end.delivery_seq for end in self.ends]
        assert numbers == list(range(1, utterances + 1)), numbers
        for again in self.repeated:
            assert again == self.ends[again.delivery_seq - 1], "a number changed its meaning"


async def open_roamer(world: ClusterWorld, at: str, **options: Any) -> Roamer:
    """A client with an open session."""
    roamer = Roamer(world, at, **options)
    await roamer.start()
    return roamer


def holders(world: ClusterWorld, roamer: Roamer) -> list[str]:
    """The instances that hold a client's session."""
    return [
        name
        for name, instance in world.instances.items()
        if instance.plane.sessions.find(roamer.session_id) is not None
    ]


def forget_records(world: ClusterWorld) -> None:
    """The ledger loses the records of all sessions; it keeps the jobs."""
    for shard in world.ledger._shards:
        for session_id in list(shard.sessions):
            shard.end_session(session_id, shard.sessions[session_id].owner)


def records(world: ClusterWorld) -> int:
    """How many sessions the ledger knows."""
    return sum(len(shard.sessions) for shard in world.ledger._shards)


async def check_nothing_is_left(world: ClusterWorld) -> None:
    """With all sessions over, no instance and no job speaks of one."""
    assert await what_is_left(world) == {}


async def what_is_left(world: ClusterWorld) -> dict[str, object]:
    """What instances and ledger still keep of sessions and jobs."""
    kept: dict[str, object] = {}
    for name, instance in world.instances.items():
        sessions: Any = instance.plane.sessions
        kept |= {
            f"{name}'s sessions": len(sessions),
            f"{name}'s languages": sessions.languages._spelling,
            f"{name}'s looks for silent clients": sessions._looks,
            f"{name}'s sessions that are looked at": sessions._looked_at,
            f"{name}'s sessions that ended": sessions._gone,
            f"{name}'s tenants": sessions._by_tenant,
            f"{name}'s sessions to forget": sessions._to_forget,
            f"{name}'s resumes": sessions._resuming,
            f"{name}'s buffered bytes": sessions._context.budget.used,
            f"{name}'s sockets": instance.connections.counts.get("session", 0),
            **instance.plane.dispatcher.counts(),
        }
    size = await world.ledger.size()
    kept |= {kind: size[kind] for kind in ("held", "finished", "tombstones", "jobs", "requests")}
    return {what: value for what, value in kept.items() if value}
