"""What was said before reaches the node that hears what comes next."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import open_roamer
from tests.simulation.speakers import Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import JobAssign, PastUtterance
from dragoman.testing import JobEnding, SimulatedNode, seconds


def told(assign: JobAssign) -> list[tuple[str, str]]:
    return [(one.text_asr, one.text_translated) for one in assign.context]


def translate(assign: JobAssign) -> str:
    return f"{assign.tgt_lang}:{assign.text}"


async def say(speaker: Speaker, *texts: str, **fields: Any) -> None:
    for text in texts:
        ends = len(speaker.ends)
        await speaker.say(text, **fields)
        await speaker.until_ended(ends + 1)


def assigned(*nodes: SimulatedNode) -> dict[str | None, JobAssign]:
    return {assign.text: assign for node in nodes for assign in node.assigned}


def test_each_job_carries_the_last_utterances_whichever_nodes_heard_them() -> None:
    async def story(world: World) -> None:
        quick: dict[str, Any] = {"text": translate, "service": seconds(0.1)}
        nodes = [await world.node(f"n{number}", **quick) for number in range(4)]
        speaker = await open_speaker(world)
        texts = [f"sentence {number}" for number in range(6)]
        await say(speaker, *texts)
        assert len({result.node_id for result in speaker.results}) > 1
        found = assigned(*nodes)
        assert found["sentence 0"].context == ()
        assert told(found["sentence 2"]) == [(text, f"en:{text}") for text in texts[:2]]
        assert found["sentence 5"].context == tuple(
            PastUtterance(text, f"en:{text}", "zh", "en") for text in texts[2:5]
        ), "the last three"
        other = await open_speaker(world)
        await say(other, "a stranger")
        assert assigned(*nodes)["a stranger"].context == (), "a session's past is its own"

    play(story)


def test_the_past_is_bounded_in_bytes_and_what_does_not_fit_is_left_out() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", text=translate, service=seconds(0.1))
        speaker = await open_speaker(world)
        await say(speaker, "short", "x" * 60, "brief", "y" * 200, "end", "fine")
        found = assigned(node)
        assert told(found["brief"]) == [("x" * 60, f"en:{'x' * 60}")]
        assert told(found["end"]) == [], "it does not fit by itself"
        assert told(found["fine"]) == [("end", "en:end")]

    play(story, scheduler__context__max_bytes=128)


@pytest.mark.parametrize(
    "settings",
    [
        {"scheduler__context__utterances": 0},
        {"scheduler__context__tenants_without": ("default",)},
    ],
)
def test_where_it_is_off_no_job_carries_any_past(settings: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        node = await world.node("n", text=translate, service=seconds(0.1))
        speaker = await open_speaker(world)
        await say(speaker, "one", "two", "three")
        assert [assign.context for assign in node.assigned] == [(), (), ()]

    play(story, **settings)


def test_each_target_has_a_past_of_its_own() -> None:
    async def story(world: World) -> None:
        languages = ("zh", "en", "fr")
        manner: dict[str, Any] = {"text": translate, "service": seconds(0.1)}
        node = await world.node("n", nmt=languages, tts=languages, **manner)
        speaker = await open_speaker(world, tgt_langs=("en", "fr"))
        await speaker.say("first")
        await speaker.until_ended(2)
        await speaker.say("second")
        await speaker.until_ended(4)
        second = {one.tgt_lang: told(one) for one in node.assigned if one.text == "second"}
        assert second == {"en": [("first", "en:first")], "fr": [("first", "fr:first")]}

    play(story)


def test_a_node_that_takes_a_job_over_is_told_the_same() -> None:
    async def story(world: World) -> None:
        await world.node("n", text=translate, service=seconds(0.1))
        speaker = await open_speaker(world)
        await say(speaker, "first")
        await world.nodes["n"].stop()
        bad = await world.node("bad", answer=JobEnding.RETRYABLE, service=seconds(0.1))
        await speaker.say("second")
        await world.until(lambda: bool(bad.assigned))
        good = await world.node("good", text=translate, service=seconds(0.1))
        await speaker.until_ended(2)
        assert told(bad.assigned[0]) == told(good.assigned[0]) == [("first", "en:first")]

    play(story)


@pytest.mark.parametrize("killed", [True, False])
def test_the_past_goes_on_with_a_session_at_another_instance(killed: bool) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, text=translate, service=seconds(0.1))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await say(speaker, "first", "second")
        await world.pass_time(1)
        speaker.cut()
        if killed:
            await world.kill("a")
        ack = await speaker.go_on_at("b")
        assert ack.resumed
        await say(speaker, "third")
        assert told(assigned(node)["third"]) == [
            ("first", "en:first"),
            ("second", "en:second"),
        ]
        await say(speaker, "fourth")
        assert len(assigned(node)["fourth"].context) == 3

    play_together(story)
