"""A failover of Redis loses the last writes to records of sessions; they lose nothing by it."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from random import Random
from typing import Any

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import Roamer, holders, open_roamer

from dragoman.live.protocol import MissingResult, Pipeline
from dragoman.testing import seconds

TARGETS = ("en", "zh")
SPOKEN: dict[str, Any] = {
    "tgt_langs": TARGETS,
    "pipeline": Pipeline(use_nmt=True, use_tts=True),
}
"""A session with both targets; a target may have a node of its own, which alone speaks it."""


class Replica:
    """What a replica of the records had got at some time; promoted, it is all that there is."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._kept = deepcopy(world.records._kept)

    def promote(self) -> None:
        self._world.records._kept = self._kept


def check_in_order(speaker: Roamer, utterances: int) -> None:
    """Every utterance ended once for each target, in order."""
    for target in TARGETS:
        ends = [end for end in speaker.ends if end.tgt_lang == target]
        assert [end.utterance_index for end in ends] == list(range(utterances))


async def is_whole(world: ClusterWorld, speaker: Roamer, at: str) -> bool:
    """Whether the record has all that its owner knows to be stored."""
    session: Any = world[at].plane.sessions.find(speaker.session_id)
    assert session is not None
    return bool(await world.records.read(speaker.session_id) == session.describe())


async def until_whole(world: ClusterWorld, speaker: Roamer, at: str, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await is_whole(world, speaker, at):  # noqa: ASYNC110  # it is no event
            await asyncio.sleep(0.01)


async def lose_an_end(world: ClusterWorld) -> Roamer:
    """A client that heard an utterance end for both targets, of which the record forgot one."""
    await world.node("en", at="b", slots=9, service=seconds(0.1), tts=("en",))
    await world.node("zh", at="b", slots=9, service=seconds(0.5), tts=("zh",))
    speaker = await open_roamer(world, "a", acknowledges=True, **SPOKEN)
    await speaker.say()
    await speaker.until_ended(1)
    await asyncio.sleep(0.1)
    replica = Replica(world)
    await speaker.until_ended(2)
    await asyncio.sleep(0.1)
    replica.promote()
    return speaker


async def move_on(world: ClusterWorld, speaker: Roamer) -> None:
    """The owner dies, and another instance takes the session up."""
    await world.kill("a")
    speaker.cut()
    assert (await speaker.go_on_at("b")).resumed


def test_an_end_that_was_forgotten_is_stored_again_by_the_next_write() -> None:
    async def story(world: ClusterWorld) -> None:
        speaker = await lose_an_end(world)
        await speaker.say()
        await speaker.until_ended(3)
        await move_on(world, speaker)
        await speaker.until_ended(4)
        await asyncio.sleep(5)
        check_in_order(speaker, 2)

    play_together(story)


def test_an_end_that_was_forgotten_is_stored_again_when_the_record_is_renewed() -> None:
    async def story(world: ClusterWorld) -> None:
        speaker = await lose_an_end(world)
        assert not await is_whole(world, speaker, "a")
        await until_whole(world, speaker, "a", seconds=11)
        await move_on(world, speaker)
        await speaker.say()
        await speaker.until_ended(4)
        assert not speaker.repeated
        check_in_order(speaker, 2)

    play_together(story)


def test_when_one_session_finds_its_record_older_all_are_looked_at() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=99, service=seconds(0.1))
        speakers = [await open_roamer(world, "a", acknowledges=True) for _ in range(30)]
        replica = Replica(world)
        for speaker in speakers:
            await speaker.say()
        for speaker in speakers:
            await speaker.until_ended(1)
        await asyncio.sleep(0.1)
        replica.promote()
        for speaker in speakers:
            await until_whole(world, speaker, "a", seconds=1.1)

    play_together(story)


def test_a_keeper_that_is_back_after_it_was_away_is_told_all_at_once() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=99, service=seconds(0.1))
        speakers = [await open_roamer(world, "a", acknowledges=True) for _ in range(30)]
        replica = Replica(world)
        for speaker in speakers:
            await speaker.say()
        for speaker in speakers:
            await speaker.until_ended(1)
        door = world["a"].access
        door.cut.add(world.records)
        await asyncio.sleep(3)
        replica.promote()
        door.cut.clear()
        for speaker in speakers:
            await until_whole(world, speaker, "a", seconds=0.6)

    play_together(story)


def test_a_client_that_comes_back_to_its_instance_finds_all_that_happened() -> None:
    async def story(world: ClusterWorld) -> None:
        speaker = await lose_an_end(world)
        speaker.cut()
        assert (await speaker.go_on_at("a")).resumed
        assert await is_whole(world, speaker, "a")
        await move_on(world, speaker)
        await speaker.say()
        await speaker.until_ended(4)
        check_in_order(speaker, 2)

    play_together(story)


def test_open_utterances_that_were_forgotten_are_stored_with_the_next_one() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(2))
        speaker = await open_roamer(world, "a", acknowledges=True, **SPOKEN)
        replica = Replica(world)
        await speaker.say()
        await world.until(lambda: len(node.working) == 2)
        replica.promote()
        await speaker.say()
        await world.until(lambda: len(node.working) == 4)
        await move_on(world, speaker)
        await speaker.until_ended(4)
        check_in_order(speaker, 2)
        assert len(speaker.results) == 4

    play_together(story)


def test_a_session_that_was_forgotten_as_a_whole_is_written_again() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.2))
        replica = Replica(world)
        speaker = await open_roamer(world, "a", acknowledges=True, **SPOKEN)
        await speaker.say()
        await speaker.until_ended(2)
        replica.promote()
        await until_whole_again(world, speaker)
        await move_on(world, speaker)
        await speaker.say()
        await speaker.until_ended(4)
        check_in_order(speaker, 2)

    async def until_whole_again(world: ClusterWorld, speaker: Roamer) -> None:
        assert await world.records.read(speaker.session_id) is None
        await until_whole(world, speaker, "a", seconds=11)

    play_together(story)


# --- owners that were forgotten -----------------------------------------------------------------


def test_a_session_whose_new_owner_was_forgotten_stays_with_it() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.2))
        speaker = await open_roamer(world, "a", acknowledges=True, **SPOKEN)
        await speaker.say()
        await speaker.until_ended(2)
        replica = Replica(world)
        speaker.cut()
        assert (await speaker.go_on_at("b")).resumed
        replica.promote()
        await speaker.say()
        await speaker.until_ended(4)
        check_in_order(speaker, 2)
        assert speaker.close_code is None
        after = await world.records.read(speaker.session_id)
        assert after is not None
        assert after.owner.instance_id == "b"

    play_together(story)


@pytest.mark.parametrize("grace", [3, 60])
def test_an_owner_that_was_forgotten_and_left_by_its_client_lets_go(grace: int) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="c", slots=9, service=seconds(15))
        speaker = await open_roamer(world, "a", acknowledges=True, **SPOKEN)
        await speaker.say()
        await world.until(lambda: len(node.working) == 2)
        replica = Replica(world)
        speaker.cut()
        await speaker.go_on_at("b")
        replica.promote()
        speaker.cut()
        await speaker.go_on_at("c")
        await world.until(lambda: holders(world, speaker) == ["c"], seconds=15)
        await speaker.until_ended(2)
        check_in_order(speaker, 1)
        assert len(speaker.results) == 2
        assert len(node.assigned) == 2

    play_together(story, names="abc", scheduler__delivery__resume_grace_seconds=grace)


# --- an owner that dies before it can write its record again ------------------------------------


def test_with_one_target_what_was_heard_already_has_the_same_number_again() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.2))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.say()
        await speaker.until_ended(1)
        replica = Replica(world)
        for _ in range(3):
            await speaker.say()
        await speaker.until_ended(4)
        replica.promote()
        await move_on(world, speaker)
        await speaker.say()
        await speaker.until_ended(5)
        assert len(speaker.repeated) == 3
        speaker.check(5)

    play_together(story)


def test_with_several_targets_the_client_says_it_again_in_a_new_session() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("en", at="b", slots=9, service=seconds(0.5), tts=("en",))
        await world.node("zh", at="b", slots=9, service=seconds(0.1), tts=("zh",))
        speaker = await open_roamer(world, "a", acknowledges=True, **SPOKEN)
        await speaker.say()
        await speaker.until_ended(2)
        replica = Replica(world)
        await speaker.say()
        await speaker.until_ended(3)
        replica.promote()
        await world.kill("a")
        speaker.cut()
        await asyncio.sleep(1)
        # Both have ended by now, and nobody knows which of them the client has heard.
        assert not (await speaker.go_on_at("b")).resumed
        await speaker.say()
        await asyncio.sleep(30)
        ends = [(end.utterance_index, end.tgt_lang) for end in speaker.results]
        wanted = [(index, target) for index in range(3) for target in TARGETS]
        assert sorted(ends) == sorted(wanted)
        check_in_order(speaker, 3)

    play_together(story)


# --- what was dropped -----------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["a", "b"])
def test_a_client_hears_of_what_was_dropped_wherever_it_resumes(at: str) -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a", tgt_langs=TARGETS)
        for _ in range(10):
            await speaker.say()
        heard = list(await speaker.until_ended(20))
        speaker.cut()
        speaker.ends.clear()
        assert (await speaker.go_on_at(at)).resumed
        again = await speaker.until_ended(20)
        meanings = [(end.delivery_seq, end.utterance_index, end.tgt_lang) for end in heard]
        assert meanings == [(end.delivery_seq, end.utterance_index, end.tgt_lang) for end in again]
        dropped = again[:-6]
        assert all(isinstance(end, MissingResult) for end in dropped)
        assert {end.reason for end in speaker.missing} == {"RATE_LIMITED"}
        assert list(again[-6:]) == heard[-6:]

    play_together(story, limits__session_queue=6)


# --- at any moment --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_writes_that_are_on_their_way_meanwhile_are_lost_as_little(seed: int) -> None:
    """Redis fails over again and again, with some lag; writes take their time and overtake."""
    random = Random(seed)

    async def fail_over(world: ClusterWorld) -> None:
        while True:
            await asyncio.sleep(random.random())
            replica = Replica(world)
            await asyncio.sleep(random.random() * 0.3)
            away = random.random() < 0.5
            if away:
                world["a"].access.cut.add(world.records)
                await asyncio.sleep(random.random() * 0.2)
            replica.promote()
            world["a"].access.cut.clear()

    async def story(world: ClusterWorld) -> None:
        await world.node("en", at="b", slots=99, service=lambda it: it.random(), tts=("en",))
        await world.node("zh", at="b", slots=99, service=lambda it: it.random(), tts=("zh",))
        speaker = await open_roamer(world, "a", acknowledges=True, **SPOKEN)
        world["a"].access.seconds = 0.1
        trouble = asyncio.create_task(fail_over(world))
        for _ in range(30):
            await speaker.say()
            await asyncio.sleep(random.random() * 0.3)
        trouble.cancel()
        world["a"].access.cut.clear()
        await asyncio.sleep(12)
        world["a"].access.seconds = 0.0
        await asyncio.sleep(1)
        assert await is_whole(world, speaker, "a"), seed
        await move_on(world, speaker)
        await speaker.say()
        await speaker.until_ended(62, seconds=60)
        check_in_order(speaker, 31)
        assert not speaker.repeated

    play_together(story, seed=seed)
