"""A session whose connection is lost."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.sdk_session.scene import Scene, play

from dragoman.errors import InvalidSession, SessionClosed
from dragoman.live.gateway import CloseCode, uniform
from dragoman.live.protocol import TranslationResult
from dragoman.sdk import SessionInterrupted, SessionOpened, Unreachable


def test_a_lost_connection_is_made_again_and_nothing_is_missing() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            name = session.session_id
            await session.say("before")
            scene.link.cut()
            await session.say("after")
            await session.close()
            results = [result async for result in session.results()]
            assert session.session_id == name
        texts = [r.text_translated for r in results if isinstance(r, TranslationResult)]
        assert texts == ["BEFORE", "AFTER"]
        opened = [event for event in scene.events if isinstance(event, SessionOpened)]
        assert [event.resumed for event in opened] == [False, True]

    play(script)


def test_what_a_half_open_connection_swallowed_is_said_again() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            scene.link.cut(client_notices_after=None, server_notices_after=None)
            await session.say("into the void")
            result = await session.next_result()
            assert isinstance(result, TranslationResult)
        assert any(
            isinstance(event, SessionInterrupted) and "heartbeat" in event.reason
            for event in scene.events
        )

    play(script)


def test_a_server_that_goes_and_comes_back_without_the_session_is_told_of() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            await session.say("hello")
            await scene.replace_plane()

    with pytest.raises(InvalidSession, match="no longer has session"):
        play(script)


def test_a_session_that_is_gone_can_be_restarted_with_all_that_had_not_ended() -> None:
    async def script(scene: Scene) -> None:
        scene.work_seconds = lambda _: 3.0
        async with scene.client(tgt_langs=["es", "fr"], if_gone="restart") as session:
            await session.say("first")
            first = [await session.next_result(), await session.next_result()]
            await session.say("second")
            await asyncio.sleep(1)
            await scene.replace_plane()
            await session.say("third")
            await session.close()
            rest = [result async for result in session.results()]
        assert {(r.utterance_index, r.tgt_lang) for r in first if r} == {(0, "es"), (0, "fr")}
        ends = sorted((r.utterance_index, r.tgt_lang) for r in rest)
        assert ends == [(1, "es"), (1, "fr"), (2, "es"), (2, "fr")]
        assert any(isinstance(e, SessionOpened) and e.restarted for e in scene.events)

    play(script)


def test_audio_that_was_not_stored_goes_to_the_restarted_session() -> None:
    async def script(scene: Scene) -> None:
        first, second = scene.random.randbytes(3200), scene.random.randbytes(3200)
        async with scene.client(if_gone="restart") as session:
            await session.feed(first, final=True)
            heard = await session.next_result()
            assert isinstance(heard, TranslationResult)
            await asyncio.sleep(1)  # by then the client knows that the first one was stored
            await session.feed(second[:1600])
            await scene.replace_plane()
            await session.feed(second[1600:], final=True)
            result = await session.next_result()
            assert isinstance(result, TranslationResult)
            assert (result.utterance_index, result.tts_audio) == (1, second)

    play(script)


def test_results_that_came_while_the_client_was_away_wait_for_it_also_when_it_was_closing() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            await session.feed(bytes(3200), final=True)
            closing = asyncio.create_task(session.close())
            await asyncio.sleep(0.2)
            scene.reachable = False
            scene.link.cut()
            await asyncio.sleep(5)
            scene.reachable = True
            await closing
            results = [result async for result in session.results()]
        assert [type(result) for result in results] == [TranslationResult]

    play(script)


def test_a_pause_that_was_lifted_while_the_client_was_away_does_not_last_forever() -> None:
    async def script(scene: Scene) -> None:
        scene.work_seconds = lambda _: 2.0
        async with scene.client() as session:
            for _ in range(4):
                await session.feed(bytes(320), final=True)
            await asyncio.sleep(0.5)
            scene.link.cut()
            await session.feed(bytes(320), final=True)
            await session.close()
            assert len([result async for result in session.results()]) == 5

    play(script, limits__max_inflight_per_session=4)


def test_a_session_that_was_resumed_elsewhere_is_not_fought_over() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            [served] = scene.plane.sessions
            assert served.link is not None
            served.link.superseded()
            await session.next_result()

    with pytest.raises(SessionClosed, match="another program"):
        play(script)


def test_a_server_that_says_goodbye_is_found_again() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as session:
            scene.connections.close_all(CloseCode.DRAINING, "the server is draining")
            await session.say("hello")
            assert isinstance(await session.next_result(), TranslationResult)
        lost = [event for event in scene.events if isinstance(event, SessionInterrupted)]
        assert [event.code for event in lost] == [1001]

    play(script)


def test_a_scheduler_that_never_comes_back_ends_the_session() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client(reconnect_seconds=30) as session:
            scene.reachable = False
            scene.link.cut()
            await session.say("hello")
            await session.next_result()

    with pytest.raises(Unreachable, match="not found again within 30 s"):
        play(script)


def test_a_scheduler_that_is_not_there_is_told_of_at_once() -> None:
    async def script(scene: Scene) -> None:
        scene.reachable = False
        with pytest.raises(Unreachable, match="the network is down"):
            async with scene.client():
                raise AssertionError("nothing is open")

    play(script)


def test_memory_is_bounded_while_there_is_no_connection() -> None:
    async def script(scene: Scene) -> None:
        async with scene.client(keep_bytes=10_000) as session:
            scene.reachable = False
            scene.link.cut()
            fed = 0

            async def feed_forever() -> None:
                nonlocal fed
                while True:
                    await session.feed(bytes(1000))
                    fed += 1000

            feeding = asyncio.create_task(feed_forever())
            await asyncio.sleep(20)
            assert fed == 10_000
            scene.reachable = True
            await asyncio.sleep(20)
            assert fed > 10_000
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    play(script, delay=uniform(0.001, 0.01))
