"""A text whose target is its own language."""

from __future__ import annotations

from typing import Any

from tests.simulation.speakers import open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import JobAssign
from dragoman.testing import seconds


def nothing(assign: JobAssign) -> Any:
    """A node that has nothing to do with a text, or only speaks it, says nothing of it."""


def test_a_text_in_its_own_language_comes_back_as_it_is() -> None:
    async def story(world: World) -> None:
        await world.node("n1", text=nothing, service=seconds(0.1))
        speaker = await open_speaker(world, src_lang="en", tgt_lang="EN")
        await speaker.say("hello")
        await speaker.until_ended(1)
        [result] = speaker.results
        assert result.text_translated == "hello"
        assert result.text_asr is None

    play(story)


def test_a_text_that_was_not_translated_is_not_taken_for_a_translation() -> None:
    async def story(world: World) -> None:
        await world.node("n1", text=nothing, service=seconds(0.1))
        speaker = await open_speaker(world, src_lang="en", tgt_lang="zh")
        await speaker.say("hello")
        await speaker.until_ended(1)
        assert [result.text_translated for result in speaker.results] == [None]

    play(story)


def test_what_a_node_says_of_a_text_in_its_own_language_stays() -> None:
    async def story(world: World) -> None:
        await world.node("n1", text=lambda assign: "Hello.", service=seconds(0.1))
        speaker = await open_speaker(world, src_lang="en", tgt_lang="en")
        await speaker.say("hello")
        await speaker.until_ended(1)
        assert [result.text_translated for result in speaker.results] == ["Hello."]

    play(story)
