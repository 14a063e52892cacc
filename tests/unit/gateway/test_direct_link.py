"""Connections without a way: in order, with the server's own handling, and with their faults."""

from __future__ import annotations

import asyncio

from tests.unit.gateway.scene import Scene, heartbeat, now, order, play
from tests.unit.gateway.scripted import CLIENT_KEY

from dragoman.auth import ApiKey
from dragoman.live.gateway import CloseCode, DirectLink, WireClosed
from dragoman.live.protocol import SchedulerToClient, ServerHeartbeat


class Peer:
    """A client program: what it heard, and how it learnt that its connection was over."""

    def __init__(self, scene: Scene, key: ApiKey) -> None:
        self.heard: list[SchedulerToClient] = []
        self.ends: list[tuple[float, int]] = []
        self.link: DirectLink[SchedulerToClient] = scene.network.connect_directly(
            scene.endpoint, self.heard.append, self._ended, key=key
        )

    def _ended(self, end: WireClosed) -> None:
        self.ends.append((now(), end.code))

    @property
    def seqs(self) -> list[int]:
        return [said.next_chunk_seq for said in self.heard if isinstance(said, ServerHeartbeat)]


def test_messages_are_handled_in_order_although_each_is_waited_for() -> None:
    async def script(scene: Scene) -> None:
        peer = Peer(scene, CLIENT_KEY)
        for seq in range(20):
            peer.link.say(heartbeat(seq))
        await asyncio.sleep(1)
        assert peer.seqs == list(range(20))
        assert peer.link.is_open

    assert play(script)[:2] == ["opened", "heartbeat 0"]


def test_a_peer_with_a_wrong_key_is_refused_as_over_a_socket() -> None:
    async def script(scene: Scene) -> None:
        peer = Peer(scene, ApiKey("wrong"))
        peer.link.say(heartbeat(1))
        await asyncio.sleep(1)
        assert [code for _, code in peer.ends] == [CloseCode.UNAUTHORIZED]
        assert not peer.link.is_open

    assert play(script) == []


def test_each_side_notices_a_cut_when_it_was_told_to() -> None:
    async def script(scene: Scene) -> None:
        peer = Peer(scene, CLIENT_KEY)
        peer.link.say(heartbeat(1))
        await asyncio.sleep(1)
        peer.link.cut(client_notices_after=2.0, server_notices_after=5.0)
        peer.link.say(heartbeat(2))
        await asyncio.sleep(4)
        assert peer.ends == [(3.0, CloseCode.ABNORMAL)]
        assert len(scene.endpoint.connections) == 1
        await asyncio.sleep(2)
        assert len(scene.endpoint.connections) == 0

    assert play(script) == ["opened", "heartbeat 1", "closed 1006"]


def test_a_cut_that_neither_side_notices_leaves_the_server_with_an_open_connection() -> None:
    async def script(scene: Scene) -> None:
        peer = Peer(scene, CLIENT_KEY)
        await asyncio.sleep(1)
        peer.link.cut(client_notices_after=None, server_notices_after=None)
        await asyncio.sleep(100)
        assert peer.link.is_open
        assert len(scene.endpoint.connections) == 1
        for connection in list(scene.endpoint.connections):
            connection.close(CloseCode.HEARTBEAT_TIMEOUT)
        await asyncio.sleep(1)
        assert len(scene.endpoint.connections) == 0
        assert peer.ends == []

    play(script)


def test_a_peer_is_told_once_that_the_server_closed() -> None:
    async def script(scene: Scene) -> None:
        peer = Peer(scene, CLIENT_KEY)
        await asyncio.sleep(1)
        for connection in list(scene.endpoint.connections):
            connection.close(CloseCode.DRAINING, "enough")
        await asyncio.sleep(1)
        peer.link.cut()
        await asyncio.sleep(1)
        assert [code for _, code in peer.ends] == [CloseCode.DRAINING]

    play(script)


def test_a_closed_network_cuts_direct_links_too() -> None:
    async def script(scene: Scene) -> None:
        peer = Peer(scene, CLIENT_KEY)
        peer.link.say(order("sleep 0.5"))
        await asyncio.sleep(1)
        await scene.network.close()
        await asyncio.sleep(0)
        assert [code for _, code in peer.ends] == [CloseCode.ABNORMAL]

    play(script)
