"""Which node hears a session next."""

from __future__ import annotations

from itertools import pairwise

from tests.simulation.speakers import Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import Cut


async def utter(speaker: Speaker, times: int = 1) -> list[str | None]:
    """Say so much, each once the one before is answered; who answered."""
    before = len(speaker.ends)
    for number in range(times):
        await speaker.speak(50, final=True)
        await speaker.until_ended(before + number + 1)
    return [result.node_id for result in speaker.results[before:]]


def test_a_sentence_cut_for_its_length_stays_with_its_node_until_it_ends() -> None:
    async def story(world: World) -> None:
        for number in range(20):
            await world.node(f"n{number}")
        speakers = [await open_speaker(world) for _ in range(12)]
        for speaker in speakers:
            for _ in range(3):
                await speaker.speak(400)
            await speaker.speak(400, final=True)
            await speaker.until_ended(2)
            cut, rest = speaker.results
            assert rest.node_id == cut.node_id, "the rest of a sentence goes where it began"
        cuts = {assign.cut for node in world.nodes.values() for assign in node.assigned}
        assert cuts == {Cut.MAX_DURATION, Cut.FINAL}
        after = [(await utter(speaker))[0] for speaker in speakers]
        assert any(
            node != speaker.results[0].node_id
            for node, speaker in zip(after, speakers, strict=True)
        )

    play(story, scheduler__web_task_segmentation__max_duration_ms=1000)


def test_long_speech_stays_with_one_node_at_the_default_times() -> None:
    async def story(world: World) -> None:
        for number in range(20):
            await world.node(f"n{number}")
        speaker = await open_speaker(world)
        for _ in range(34):
            await speaker.speak(1000)
            await world.pass_time(1)
        await speaker.speak(1000, final=True)
        await speaker.until_ended(4)
        assert len({result.node_id for result in speaker.results}) == 1

    play(story, scheduler__web_task_segmentation__pause_ms=3000)


def test_a_node_holds_a_sentence_for_a_while_only_when_its_rest_does_not_come() -> None:
    async def story(world: World) -> None:
        for number in range(20):
            await world.node(f"n{number}")
        moved = 0
        for _ in range(12):
            speaker = await open_speaker(world)
            await speaker.speak(1200)
            await speaker.until_ended(1)
            await world.pass_time(11)
            await speaker.speak(10, final=True)
            await speaker.until_ended(2)
            moved += speaker.results[0].node_id != speaker.results[1].node_id
        assert moved > 0

    play(story, scheduler__web_task_segmentation__max_duration_ms=1000)


def test_a_spread_conversation_is_not_heard_by_one_node_twice_in_a_row() -> None:
    async def story(world: World) -> None:
        await world.node("a")
        await world.node("b")
        speaker = await open_speaker(world)
        nodes = await utter(speaker, 8)
        assert all(one != other for one, other in pairwise(nodes))

    play(story, scheduler__task_binding__spread_enabled=True)


def test_a_spread_conversation_keeps_the_only_node_there_is() -> None:
    async def story(world: World) -> None:
        await world.node("only")
        assert await utter(await open_speaker(world), 3) == ["only"] * 3

    play(story, scheduler__task_binding__spread_enabled=True)


def test_a_preferred_node_is_taken_while_it_fits() -> None:
    async def story(world: World) -> None:
        for number in range(6):
            await world.node(f"n{number}")
        speaker = await open_speaker(world, preferred_node_id="n4")
        assert await utter(speaker, 4) == ["n4"] * 4
        world.nodes["n4"].restart()
        await world.pass_time(5)
        assert "n4" not in await utter(speaker, 2)

    play(story)


def test_a_tenant_with_cells_of_its_own_is_served_there() -> None:
    async def story(world: World) -> None:
        for number in range(6):
            await world.node(f"n{number}")
        cells = {
            name: world.plane.registry.node(node.node_id).cell for name, node in world.nodes.items()
        }
        speaker = await open_speaker(world, tenant_id="red")
        nodes = await utter(speaker, 6)
        assert {cells[str(node)] for node in nodes} == {1}

    play(
        story,
        scheduler__pools__cell_size=2,
        scheduler__pools__tenant_cells={"red": [1]},
    )


def test_a_session_stays_with_its_shard() -> None:
    async def story(world: World) -> None:
        for number in range(8):
            await world.node(f"n{number}")
        cells = {
            name: world.plane.registry.node(node.node_id).cell for name, node in world.nodes.items()
        }
        seen = set()
        for _ in range(6):
            nodes = await utter(await open_speaker(world), 4)
            shards = {cells[str(node)] for node in nodes}
            assert len(shards) == 1
            seen |= shards
        assert len(seen) > 1, "other sessions use other shards"

    play(story, scheduler__pools__cell_size=2)
