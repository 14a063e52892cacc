"""Clients that send too much, read too little, or say nothing at all."""

from __future__ import annotations

from tests.simulation.speakers import BYTES_PER_MS, Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import (
    Backpressure,
    BackpressureAction,
    ClientHeartbeat,
    Error,
    JobResult,
    RunningJob,
    ServerHeartbeat,
)
from dragoman.testing import JobEnding, seconds

SLOW_DOWN, PAUSE, RESUME = (
    BackpressureAction.SLOW_DOWN,
    BackpressureAction.PAUSE,
    BackpressureAction.RESUME,
)


def actions(speaker: Speaker) -> list[BackpressureAction]:
    return [pressure.action for pressure in speaker.told(Backpressure)]


def test_a_client_is_told_to_slow_down_to_pause_and_to_go_on() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9, answer=JobEnding.NEVER)
        speaker = await open_speaker(world)

        async def said(count: int) -> list[BackpressureAction]:
            while len(node.assigned) < count:
                await speaker.say()
                await world.pass_time(0.01)
            return actions(speaker)

        async def answered(count: int) -> list[BackpressureAction]:
            for assign in node.assigned[len(speaker.ends) : count]:
                running = RunningJob(assign.job_id, assign.attempt_id)
                await node.finish(running, JobResult(assign.job_id, assign.attempt_id, True))
            await speaker.until_ended(count)
            return actions(speaker)

        assert await said(3) == []
        assert await said(4) == [SLOW_DOWN]
        assert await said(7) == [SLOW_DOWN]
        assert await said(8) == [SLOW_DOWN, PAUSE]
        assert await answered(4) == [SLOW_DOWN, PAUSE], "half is not below half"
        assert await answered(5) == [SLOW_DOWN, PAUSE, RESUME]
        assert await said(9) == [SLOW_DOWN, PAUSE, RESUME, SLOW_DOWN]

    play(story, limits__max_inflight_per_session=8)


def test_an_utterance_past_the_limit_ends_at_once_and_in_its_place() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9, service=seconds(2))
        speaker = await open_speaker(world)
        for _ in range(6):
            await speaker.say()
        await world.pass_time(0.1)
        assert [error.utterance_index for error in speaker.told(Error)] == [4, 5]
        assert set(speaker.error_codes) == {"RATE_LIMITED"}
        await speaker.until_ended(6)
        assert [end.utterance_index for end in speaker.ends] == list(range(6))
        assert [end.utterance_index for end in speaker.missing] == [4, 5]
        assert len(node.assigned) == 4
        await speaker.say()
        await speaker.until_ended(7)
        assert len(speaker.results) == 5

    play(story, limits__max_inflight_per_session=4)


def test_spoken_utterances_past_the_limit_wait_and_none_is_lost() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9, service=seconds(1))
        speaker = await open_speaker(world)
        for _ in range(10):
            await speaker.speak(20, final=True)
        await world.pass_time(0.5)
        assert len(node.assigned) == 4
        await speaker.beat()
        await world.until(lambda: bool(speaker.told(ServerHeartbeat)))
        assert speaker.told(ServerHeartbeat)[0].next_chunk_seq == 4, "waiting is not stored"
        await speaker.until_ended(10)
        assert [result.utterance_index for result in speaker.results] == list(range(10))
        assert speaker.connected

    play(story, limits__max_inflight_per_session=4)


def test_audio_past_what_a_session_may_keep_closes_it_and_a_resume_goes_on() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(3))
        speaker = await open_speaker(world)
        chunks = 0
        while speaker.connected:
            await speaker.speak(100, final=True)
            await world.pass_time(0.001)
            chunks += 1
        assert speaker.close_code == 4429
        assert 9 <= chunks <= 12, "what is kept is what the settings say"
        ends = 0
        while ends < chunks:
            await world.pass_time(1)
            if not speaker.connected:
                await speaker.come_back()
            ends = len(speaker.ends)
        assert [result.utterance_index for result in speaker.results] == list(range(chunks))

    play(story, limits__max_inflight_per_session=1, limits__session_queue_bytes=30_000)


def test_the_process_keeps_a_bounded_amount_for_all_sessions() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9, answer=JobEnding.NEVER)
        budget = world.plane.budget
        talkers = [await open_speaker(world) for _ in range(4)]
        for talker in talkers:
            await talker.speak(1000)
        await world.pass_time(0.1)
        assert 4 * 1000 * BYTES_PER_MS <= budget.used <= 130_000
        typist = await open_speaker(world)
        await typist.say("x" * 40_000)
        await world.until(lambda: bool(typist.error_codes))
        assert typist.error_codes == ["RATE_LIMITED"]
        assert typist.connected
        await talkers[0].speak(1000)
        await world.until(lambda: not talkers[0].connected)
        assert talkers[0].close_code == 4429
        for talker in talkers:
            talker.cut()
        await world.pass_time(100)
        assert budget.used == 0

    play(story, limits__buffered_bytes=150_000)


def test_a_client_that_does_not_read_is_closed_and_its_results_wait_for_it() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=40, answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        for _ in range(40):
            await speaker.say()
        await world.until(lambda: len(node.assigned) == 40)
        speaker.client.link.to_client.pause()
        for assign in node.assigned:
            job = assign.job_id, assign.attempt_id
            await node.finish(RunningJob(*job), JobResult(*job, True, text_translated="x" * 4_000))
        await world.pass_time(1)
        speaker.client.link.to_client.resume()
        await world.until(lambda: not speaker.connected)
        assert speaker.close_code == 4429
        heard = len(speaker.ends)
        assert heard < 40
        await speaker.come_back()
        await speaker.until_ended(40)
        assert [end.utterance_index for end in speaker.ends] == list(range(40))

    play(story, limits__session_queue_bytes=40_000)


def test_a_server_has_room_for_so_many_sessions() -> None:
    async def story(world: World) -> None:
        speakers = [await open_speaker(world) for _ in range(3)]
        late = Speaker(world)
        assert await late.connect() is None
        assert (late.error_codes, late.close_code) == (["RATE_LIMITED"], 4429)
        assert late.told(Error)[0].retry_after_ms
        await speakers[0].close()
        assert await late.connect() is not None

    play(story, limits__max_sessions=3)


def test_a_tenant_has_room_for_so_many_sessions() -> None:
    async def story(world: World) -> None:
        first = await open_speaker(world, tenant_id="red")
        assert await Speaker(world, tenant_id="red").connect() is None
        assert await Speaker(world, tenant_id="blue").connect() is not None
        await first.close()
        assert await Speaker(world, tenant_id="red").connect() is not None

    play(story, limits__sessions_per_tenant=1)


def test_a_silent_client_is_closed_and_may_come_back() -> None:
    async def story(world: World) -> None:
        silent, alive = await open_speaker(world), await open_speaker(world)
        for _ in range(5):
            await world.pass_time(20)
            await alive.beat()
        assert silent.close_code == 4408
        assert alive.connected
        ack = await silent.connect()
        assert ack is not None
        assert ack.resumed

    play(story)


def test_too_many_messages_a_second_are_refused_once_and_close_the_socket() -> None:
    async def story(world: World) -> None:
        speaker = await open_speaker(world)
        for _ in range(50):
            await speaker.send(ClientHeartbeat())
        await world.until(lambda: not speaker.connected)
        assert speaker.error_codes == ["RATE_LIMITED"]
        assert speaker.close_code == 4429

    play(story, limits__messages_per_second=20)
