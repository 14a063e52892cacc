"""A failover of Redis loses some writes to a session's record; the session loses nothing by it."""

from __future__ import annotations

from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.nodes import seconds
from tests.simulation.roaming import Roamer, open_roamer

TARGETS = ("en", "zh")


def check_in_order(speaker: Roamer, utterances: int) -> None:
    """Every utterance ended once for each target, in order."""
    for target in TARGETS:
        ends = [end for end in speaker.ends if end.tgt_lang == target]
        assert [end.utterance_index for end in ends] == list(range(utterances))


def test_open_utterances_that_were_forgotten_are_stored_with_the_next_one() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(2))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=TARGETS)
        await speaker.say()
        await world.until(lambda: len(node.working) == 2)
        world.records._kept[speaker.session_id].open_jobs.clear()
        await speaker.say()
        await world.until(lambda: len(node.working) == 4)
        await world.kill("a")
        speaker.cut()
        assert (await speaker.go_on_at("b")).resumed
        await speaker.until_ended(4)
        check_in_order(speaker, 2)
        assert len(speaker.results) == 4

    play_together(story)


def test_an_end_that_was_forgotten_is_not_told_a_second_time() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.2))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=TARGETS)
        await speaker.say()
        kept = world.records._kept[speaker.session_id]
        await world.until(lambda: len(kept.open_jobs) == 2)
        open_once = dict(kept.open_jobs)
        await speaker.until_ended(2)
        await speaker.say()
        await speaker.until_ended(4)
        kept.open_jobs.update(open_once)
        await world.kill("a")
        speaker.cut()
        assert (await speaker.go_on_at("b")).resumed
        await speaker.say()
        await speaker.until_ended(6)
        check_in_order(speaker, 3)

    play_together(story)


def test_an_utterance_of_which_nothing_is_known_is_announced() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(2))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=TARGETS)
        await speaker.say()
        await world.until(lambda: len(node.working) == 2)
        world.records._kept[speaker.session_id].open_jobs.clear()
        await world.kill("a")
        speaker.cut()
        assert (await speaker.go_on_at("b")).resumed
        await speaker.until_ended(2)
        check_in_order(speaker, 1)

    play_together(story)


def test_a_session_whose_new_owner_was_forgotten_stays_with_it() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.2))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=TARGETS)
        await speaker.say()
        await speaker.until_ended(2)
        before = await world.records.read(speaker.session_id)
        assert before is not None
        speaker.cut()
        assert (await speaker.go_on_at("b")).resumed
        world.records._kept[speaker.session_id].owner = before.owner
        await speaker.say()
        await speaker.until_ended(4)
        check_in_order(speaker, 2)
        assert speaker.close_code is None
        after = await world.records.read(speaker.session_id)
        assert after is not None
        assert after.owner.instance_id == "b"

    play_together(story)
