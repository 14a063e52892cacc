"""Session sockets on which no session was opened: for how long, and how many."""

from __future__ import annotations

from tests.simulation.speakers import Speaker, open_speaker
from tests.simulation.world import World, play


async def mute(world: World) -> Speaker:
    speaker = Speaker(world)
    await speaker.connect_bare()
    return speaker


def test_a_socket_without_session_init_is_closed_when_a_mute_node_would_be() -> None:
    async def story(world: World) -> None:
        speaker = await mute(world)
        await world.pass_time(44)
        assert speaker.connected
        await world.until(lambda: not speaker.connected, seconds=2)
        assert speaker.close_code == 4408

    play(story)


def test_the_time_for_the_first_message_is_no_longer_than_a_session_may_be_silent() -> None:
    async def story(world: World) -> None:
        speaker = await mute(world)
        await world.until(lambda: not speaker.connected, seconds=11)
        assert speaker.close_code == 4408

    play(
        story,
        scheduler__session__heartbeat_interval_seconds=5,
        scheduler__session__heartbeat_timeout_seconds=10,
    )


def test_a_session_that_was_opened_in_time_is_not_closed_by_that_time() -> None:
    async def story(world: World) -> None:
        speaker = await open_speaker(world)
        for _ in range(4):
            await world.pass_time(30)
            await speaker.beat()
        assert speaker.connected

    play(story)


def test_sockets_without_a_session_count_against_max_sessions() -> None:
    async def story(world: World) -> None:
        waiting = [await mute(world) for _ in range(3)]
        late = await mute(world)
        await world.until(lambda: not late.connected, seconds=1)
        assert (late.error_codes, late.close_code) == (["RATE_LIMITED"], 4429)
        assert all(speaker.connected for speaker in waiting)

        waiting[0].cut()
        await world.pass_time(0.1)
        speaker = await open_speaker(world)
        assert speaker.connected, "the place is free again"

    play(story, limits__max_sessions=3)


def test_a_place_is_given_back_once_however_the_socket_ends() -> None:
    async def story(world: World) -> None:
        for _ in range(3):
            await open_speaker(world)
        for _ in range(5):
            refused = Speaker(world)
            assert await refused.connect() is None
            assert refused.close_code == 4429, "all sessions are taken"
        waiting = [await mute(world) for _ in range(3)]
        assert all(speaker.connected for speaker in waiting)
        await world.pass_time(50)
        assert not any(speaker.connected for speaker in waiting)
        waiting = [await mute(world) for _ in range(3)]
        assert all(speaker.connected for speaker in waiting)

    play(story, limits__max_sessions=3)
