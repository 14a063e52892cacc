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
        self.session_id = SessionId("")

    async def start(self) -> SessionInitAck:
        """Open a session."""
        ack = await self.connect()
        assert ack is not None, f"the session was refused: {self.heard}"
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


async def check_nothing_is_left(world: ClusterWorld) -> None:
    """With all sessions over, no instance and no job speaks of one."""
    for instance in world.instances.values():
        sessions = instance.plane.sessions
        assert len(sessions) == 0
        assert not sessions._by_heard
        assert not sessions._gone
        assert not sessions._by_tenant
        assert not sessions._to_forget
        assert not sessions._resuming
        assert sessions._tools.budget.used == 0
        assert set(instance.plane.dispatcher.counts().values()) == {0}
        assert instance.connections.counts.get("session", 0) == 0
    size = await world.ledger.size()
    assert {size[kind] for kind in ("held", "ended", "jobs", "bindings", "inputs")} == {0}, size
