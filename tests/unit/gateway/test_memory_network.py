from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.scene import Client, Scene, answers, heartbeat, now, order, play
from tests.unit.gateway.scripted import scripted_endpoint

from dragoman.clock import SystemClock
from dragoman.live.gateway import (
    CloseCode,
    ConnectionClosed,
    Delay,
    DuplexLink,
    MemoryNetwork,
    fixed,
    long_tailed,
    uniform,
)
from dragoman.live.protocol import TO_CLIENT, Error, ServerHeartbeat


def test_a_frame_takes_as_long_as_the_link_says() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        connected_at = now()
        assert connected_at == 0.5  # a round trip
        await client.send(heartbeat(1))
        await client.receive()
        assert now() - connected_at == 0.5
        scene.network.delay = fixed(2)
        await client.send(heartbeat(2))
        await client.receive()
        assert now() - connected_at == 4.5
        near = await scene.dial(delay=fixed(0.125))
        await near.send(heartbeat(3))
        await near.receive()
        assert now() - connected_at == 5.0

    play(script, delay=fixed(0.25))


@given(
    seed=st.integers(0, 2**32),
    delay=st.sampled_from([uniform(0, 5), long_tailed(0.05, 2.0), fixed(0)]),
    count=st.integers(1, 30),
)
def test_frames_of_one_direction_never_overtake_each_other(
    seed: int, delay: Delay, count: int
) -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        for seq in range(count):
            await client.send(heartbeat(seq))
        for seq in range(count):
            assert await client.receive() == ServerHeartbeat(next_chunk_seq=seq)

    transcript = play(script, seed=seed, delay=delay)
    assert transcript[1:-1] == [f"heartbeat {seq}" for seq in range(count)]


def order_of_answers(seed: int) -> list[str]:
    async def script(scene: Scene) -> None:
        async def one(number: int) -> None:
            client = await scene.dial()
            for step in range(3):
                await client.send(heartbeat(10 * number + step))
                await client.receive()

        await asyncio.gather(*(one(number) for number in range(8)))

    return play(script, seed=seed, delay=uniform(0.01, 0.02))


def test_a_seed_gives_the_same_interleaving_again_and_another_seed_another() -> None:
    assert order_of_answers(1) == order_of_answers(1)
    assert len({tuple(order_of_answers(seed)) for seed in range(4)}) > 1


def test_links_without_any_delay_still_interleave_by_the_seed() -> None:
    def order_of_arrival(seed: int) -> list[str]:
        async def script(scene: Scene) -> None:
            clients = [await scene.dial() for _ in range(8)]
            for number, client in enumerate(clients):
                await client.send(heartbeat(number))
            for client in clients:
                await client.receive()

        return play(script, seed=seed)

    assert order_of_arrival(1) == order_of_arrival(1)
    assert len({tuple(order_of_arrival(seed)) for seed in range(4)}) > 1


def test_a_paused_direction_holds_frames_back_and_then_delivers_them_in_order() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        client.link.to_server.pause()
        await client.send(heartbeat(1))
        await client.send(heartbeat(2))
        await asyncio.sleep(60)
        assert scene.transcript == ["opened"]
        client.link.to_server.resume()
        await client.receive()
        client.link.to_client.pause()
        await client.send(heartbeat(3))
        await asyncio.sleep(60)
        assert scene.transcript[-1] == "heartbeat 3"
        client.link.to_client.resume()
        assert await client.receive() == ServerHeartbeat(next_chunk_seq=2)
        assert await client.receive() == ServerHeartbeat(next_chunk_seq=3)

    assert play(script)[:4] == ["opened", "heartbeat 1", "heartbeat 2", "heartbeat 3"]


def test_a_cut_loses_what_is_under_way_and_both_ends_notice() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(heartbeat(1))
        client.link.cut(client_notices_after=3, server_notices_after=5)
        assert await answers(client) == ["closed 1006"]
        assert now() == 2 + 3
        with pytest.raises(ConnectionClosed):
            await client.send(heartbeat(2))
        await scene.endpoint.connections.wait_empty()
        assert now() == 2 + 5

    assert play(script, delay=fixed(1)) == ["opened", "closed 1006"]


def test_a_half_open_connection_swallows_what_the_server_sends_until_it_closes() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(order("sleep 100"))
        await client.send(heartbeat(1))
        await asyncio.sleep(1)
        client.link.cut(client_notices_after=0, server_notices_after=None)
        await asyncio.sleep(1000)
        assert scene.transcript == ["opened", "utterance 0 sleep 100", "slept 100", "heartbeat 1"]
        (connection,) = scene.endpoint.connections
        connection.close(CloseCode.HEARTBEAT_TIMEOUT)
        await scene.endpoint.connections.wait_empty()

    assert play(script)[-1] == "closed 4408"


def test_a_black_hole_fills_the_buffer_and_the_server_gives_up_on_the_peer() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        client.link.to_client.lose()
        await client.send(order("sleep 1"))
        await asyncio.sleep(2)
        (connection,) = scene.endpoint.connections
        while connection.send(Error("X", "x" * 10_000)):
            pass
        await scene.endpoint.connections.wait_empty()

    assert play(script)[-1] == "closed 4429"


def test_a_client_that_sends_faster_than_the_server_handles_has_to_wait() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(order("sleep 100"))
        for _ in range(3):
            await client.send_frame("x" * 50_000)
        assert now() == 100
        await client.close()

    play(script)


def test_a_client_that_waits_to_send_is_let_go_when_the_connection_is_cut() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        await client.send(order("sleep 1000"))
        await client.send_frame("x" * 70_000)
        asyncio.get_running_loop().call_later(5, client.link.cut)
        with pytest.raises(ConnectionClosed, match="1006"):
            await client.send_frame("x")
        assert now() == 5

    play(script)


def test_without_the_codec_messages_travel_as_they_are_and_bad_frames_are_still_caught() -> None:
    async def script(scene: Scene) -> None:
        client = await scene.dial()
        for seq in range(3):
            await client.send(heartbeat(seq))
        await client.send_frame("{")
        heard = [await client.receive() for _ in range(3)]
        assert heard == [ServerHeartbeat(next_chunk_seq=seq) for seq in range(3)]
        await client.receive()
        await client.close()

    assert play(script, codec=False) == play(script, codec=True)


def test_the_network_runs_on_a_real_loop_as_well() -> None:
    async def main() -> list[str]:
        transcript: list[str] = []
        endpoint = scripted_endpoint(transcript, SystemClock())
        network = MemoryNetwork(Random(1), delay=uniform(0, 0.002))
        client = await network.connect(endpoint, TO_CLIENT)
        for seq in range(3):
            await client.send(heartbeat(seq))
        for _ in range(3):
            await client.receive()
        await client.close()
        await endpoint.connections.wait_empty()
        await network.close()
        return transcript

    assert asyncio.run(main()) == [
        *("opened", "heartbeat 0", "heartbeat 1", "heartbeat 2", "closed 1000")
    ]


# --- the end comes exactly once -----------------------------------------------------------------


async def _client_closes(client: Client) -> None:
    await client.close()


async def _server_closes(client: Client) -> None:
    await client.send(order("close 4409"))


async def _client_sends_garbage(client: Client) -> None:
    await client.send_frame("garbage")


async def _client_sends_too_much(client: Client) -> None:
    await client.send_frame("x" * 200_000)


async def _server_is_busy(client: Client) -> None:
    await client.send(order("sleep 3"))


async def _some_traffic(client: Client) -> None:
    await client.send(heartbeat(1))


def _fault(act: Callable[[DuplexLink], None]) -> Callable[[Client], Awaitable[None]]:
    async def happen(client: Client) -> None:
        act(client.link)

    return happen


ACTIONS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "client closes": _client_closes,
    "server closes": _server_closes,
    "garbage": _client_sends_garbage,
    "too large": _client_sends_too_much,
    "server busy": _server_is_busy,
    "traffic": _some_traffic,
    "cut": _fault(lambda link: link.cut()),
    "cut, server notices late": _fault(lambda link: link.cut(server_notices_after=7)),
    "cut, client never notices": _fault(lambda link: link.cut(client_notices_after=None)),
    "pause up": _fault(lambda link: link.to_server.pause()),
    "pause down": _fault(lambda link: link.to_client.pause()),
    "resume up": _fault(lambda link: link.to_server.resume()),
    "resume down": _fault(lambda link: link.to_client.resume()),
    "black hole": _fault(lambda link: link.to_client.lose()),
}


@given(
    seed=st.integers(0, 2**32),
    scripts=st.lists(
        st.lists(st.sampled_from(sorted(ACTIONS)), max_size=6), min_size=1, max_size=4
    ),
    gap_seconds=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_every_connection_ends_exactly_once_whatever_happens_to_it(
    seed: int, scripts: list[list[str]], gap_seconds: float
) -> None:
    async def script(scene: Scene) -> None:
        async def live(actions: list[str]) -> None:
            client = await scene.dial()
            for name in actions:
                # On a link that is cut unnoticed, a client may have to wait for room for ever.
                with contextlib.suppress(ConnectionClosed, TimeoutError):
                    await asyncio.wait_for(ACTIONS[name](client), 5)
                await asyncio.sleep(gap_seconds)
            client.link.to_server.resume()
            client.link.to_client.resume()

        await asyncio.gather(*(live(actions) for actions in scripts))
        await asyncio.sleep(20)

    transcript = play(script, seed=seed, delay=uniform(0, 1))
    assert transcript.count("opened") == len(scripts)
    assert sum(event.startswith("closed") for event in transcript) == len(scripts)
