"""What clients say and hear: every message, every mode, in both sub-protocols."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.simulation.speakers import BYTES_PER_MS, Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.ids import RequestId
from dragoman.live.protocol import (
    AsrPartial,
    Cut,
    Error,
    JobAssign,
    JobPartial,
    JobResult,
    MissingResult,
    Mode,
    Pipeline,
    RunningJob,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    UiEvent,
    UiEventName,
    Utterance,
)
from dragoman.testing import JobEnding, SimulatedNode, seconds

JSON, MSGPACK = "dragoman.json.v1", "dragoman.msgpack.v1"


async def answer(node: SimulatedNode, assign: JobAssign, **output: Any) -> None:
    """End a job of a node that never does so by itself."""
    running = RunningJob(assign.job_id, assign.attempt_id)
    await node.finish(running, JobResult(assign.job_id, assign.attempt_id, True, **output))


@pytest.mark.parametrize("sub", [JSON, MSGPACK])
def test_a_whole_conversation(sub: str) -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        speaker = await open_speaker(world, sub=sub, ui_events=True)
        (ack,) = speaker.told(SessionInitAck)
        assert (ack.resumed, ack.next_chunk_seq, ack.next_utterance_index) == (False, 0, 0)
        assert (ack.protocol_version, ack.instance_id) == ("1", "here")
        assert ack.heartbeat_interval_ms == 30_000
        assert ack.session_id in ack.resume_token

        await speaker.speak(100)
        await speaker.speak(100, final=True)
        await world.until(lambda: bool(node.assigned))
        (assign,) = node.assigned
        assert assign.audio == b"\1" * 200 * BYTES_PER_MS
        assert (assign.session_id, assign.utterance_index) == (ack.session_id, 0)
        await node.say(JobPartial(assign.job_id, assign.attempt_id, "ni", False))
        await answer(node, assign, text_asr="你好", text_translated="hello", tts_audio=b"\0\xff")
        await speaker.until_ended(1)
        await speaker.beat(1)
        assert await speaker.close() == 1000

        (partial,) = speaker.told(AsrPartial)
        assert (partial.text, partial.utterance_index) == ("ni", 0)
        (result,) = speaker.results
        assert (result.delivery_seq, result.utterance_index, result.tgt_lang) == (1, 0, "en")
        assert (result.text_asr, result.text_translated) == ("你好", "hello")
        assert (result.tts_audio, result.node_id) == (b"\0\xff", "n")
        assert result.request_id == f"{ack.session_id}/0"
        assert result.scheduling.attempts == 1
        assert [beat.next_chunk_seq for beat in speaker.told(ServerHeartbeat)] == [2]
        assert isinstance(speaker.heard[-1], SessionCloseAck)
        assert [event.event for event in speaker.told(UiEvent)] == [
            UiEventName.INPUT_STARTED,
            UiEventName.INPUT_ENDED,
            UiEventName.DISPATCHED,
            UiEventName.NODE_ACCEPTED,
            UiEventName.RUNNING,
            UiEventName.ASR_PARTIAL,
            UiEventName.DELIVERED,
        ]

    play(story)


@pytest.mark.parametrize(
    ("init", "field"),
    [
        ({"tgt_lang": None}, "tgt_lang"),
        ({"src_lang": "auto"}, "src_lang"),
        ({"tgt_lang": "en", "tgt_langs": ("en",)}, "tgt_langs"),
        ({"tgt_lang": None, "tgt_langs": ("en", "EN")}, "tgt_langs"),
        ({"mode": Mode.TWO_WAY_AUTO, "lang_a": "zh"}, "lang_b"),
        ({"mode": Mode.TWO_WAY_AUTO, "lang_a": "zh", "lang_b": "ZH"}, "lang_b"),
        ({"pipeline": Pipeline(use_asr=False, use_nmt=False, use_tts=False)}, "pipeline"),
        ({"features": ("mind_reading",)}, "features"),
    ],
)
def test_an_init_that_makes_no_sense_is_refused_and_closed(
    init: dict[str, Any], field: str
) -> None:
    async def story(world: World) -> None:
        speaker = Speaker(world)
        assert await speaker.connect(**init) is None
        (error,) = speaker.told(Error)
        assert error.code == "INVALID_MESSAGE"
        assert field in error.message
        assert speaker.close_code == 4400
        assert len(world.plane.sessions) == 0

    play(story)


def test_the_first_message_is_an_init_and_a_second_one_is_refused() -> None:
    async def story(world: World) -> None:
        hasty = Speaker(world)
        await hasty.connect_bare()
        await hasty.say()
        await world.until(lambda: not hasty.connected)
        assert (hasty.error_codes, hasty.close_code) == (["INVALID_MESSAGE"], 4400)

        speaker = await open_speaker(world)
        await speaker.send(SessionInit(src_lang="zh", tgt_lang="en"))
        await world.until(lambda: bool(speaker.error_codes))
        assert speaker.error_codes == ["INVALID_MESSAGE"]
        assert speaker.connected

    play(story)


def test_an_unknown_message_is_an_error_and_the_session_goes_on() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.client.send_frame('{"type": "sing", "song": "la"}')
        await speaker.say()
        await speaker.until_ended(1)
        assert speaker.error_codes == ["INVALID_MESSAGE"]
        assert len(speaker.results) == 1

    play(story)


def test_several_targets_of_an_utterance_each_have_a_job_and_an_order() -> None:
    """Several target languages of one utterance once overwrote each other."""

    async def story(world: World) -> None:
        node = await world.node(
            "n", slots=9, answer=JobEnding.NEVER, tts=("en", "fr"), nmt=("zh", "en", "fr")
        )
        speaker = await open_speaker(world, tgt_langs=("en", "fr"))
        await speaker.say("one")
        await speaker.say("two")
        await world.until(lambda: len(node.assigned) == 4)
        jobs = {(assign.utterance_index, assign.tgt_lang): assign for assign in node.assigned}
        for key in ((1, "en"), (1, "fr"), (0, "fr"), (0, "en")):
            await answer(node, jobs[key], text_translated=f"{key}")
        await speaker.until_ended(4)
        assert [(r.utterance_index, r.tgt_lang) for r in speaker.results] == [
            (0, "fr"),
            (1, "fr"),
            (0, "en"),
            (1, "en"),
        ]
        assert [r.delivery_seq for r in speaker.results] == [1, 2, 3, 4]
        assert all(
            r.text_translated == str((r.utterance_index, r.tgt_lang)) for r in speaker.results
        )
        assert len({assign.job_id for assign in node.assigned}) == 4

    play(story)


def test_two_ways_are_one_job_on_a_node_of_both_pools_and_one_order() -> None:
    async def story(world: World) -> None:
        await world.node("one_way", asr=("zh",), tts=("en",))
        both = await world.node("both", answer=JobEnding.NEVER)
        speaker = await open_speaker(
            world, mode=Mode.TWO_WAY_AUTO, lang_a="zh", lang_b="en", src_lang="auto"
        )
        for _ in range(3):
            await speaker.speak(50, final=True)
        await world.until(lambda: len(both.assigned) == 3)
        first, second, third = both.assigned
        assert (first.mode, first.lang_a, first.lang_b) == (Mode.TWO_WAY_AUTO, "zh", "en")
        assert (first.src_lang, first.tgt_lang) == ("zh", "en")
        await answer(both, third, tgt_lang="en")
        await answer(both, second, tgt_lang="zh")
        await answer(both, first, tgt_lang="en")
        await speaker.until_ended(3)
        assert [r.utterance_index for r in speaker.results] == [0, 1, 2]
        assert [r.tgt_lang for r in speaker.results] == ["en", "zh", "en"]

    play(story)


def test_of_two_ways_an_utterance_may_say_which_one_it_goes() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", nmt=("zh-hans", "en"))
        speaker = await open_speaker(
            world, mode=Mode.TWO_WAY_AUTO, lang_a="zh-Hans", lang_b="en", src_lang="auto"
        )
        await speaker.say("from b", src_lang="EN")
        await speaker.say("from a", src_lang="zh-hans")
        await speaker.say("from neither", src_lang="fr")
        await speaker.say("from either", src_lang="auto")
        await speaker.until_ended(4)
        assert [(told.text, told.src_lang, told.tgt_lang) for told in node.assigned] == [
            ("from b", "EN", "zh-Hans"),
            ("from a", "zh-Hans", "en"),
            ("from either", "zh-Hans", "en"),
        ]
        assert [result.tgt_lang for result in speaker.results] == ["zh-Hans", "en", "en"]
        (refused,) = speaker.told(Error)
        assert (refused.code, refused.utterance_index) == ("INVALID_MESSAGE", 2)
        assert "zh-Hans" in refused.message

    play(story)


def test_of_two_ways_the_target_of_an_utterance_says_which_one_it_goes() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", nmt=("zh-hans", "en"))
        speaker = await open_speaker(
            world, mode=Mode.TWO_WAY_AUTO, lang_a="zh-Hans", lang_b="en", src_lang="zh-hans"
        )
        await speaker.say("to a", tgt_lang="ZH-hans")
        await speaker.say("to b", tgt_lang="en")
        await speaker.say("to neither", tgt_lang="fr")
        await speaker.say("to itself", src_lang="en", tgt_lang="EN")
        await speaker.say("from either to a", src_lang="auto", tgt_lang="zh-hans")
        await speaker.until_ended(5)
        assert [(told.text, told.src_lang, told.tgt_lang) for told in node.assigned] == [
            ("to a", "en", "zh-Hans"),
            ("to b", "zh-Hans", "en"),
            ("from either to a", "en", "zh-Hans"),
        ]
        assert [result.tgt_lang for result in speaker.results] == ["zh-Hans", "en", "zh-Hans"]
        assert [(refused.code, refused.utterance_index) for refused in speaker.told(Error)] == [
            ("INVALID_MESSAGE", 2),
            ("INVALID_MESSAGE", 3),
        ]

    play(story)


def test_a_node_cannot_make_a_third_way_of_two() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER, nmt=("zh", "en"))
        speaker = await open_speaker(
            world, mode=Mode.TWO_WAY_AUTO, lang_a="zh", lang_b="en", src_lang="auto"
        )
        await speaker.say("ni hao")
        await world.until(lambda: len(node.assigned) == 1)
        await answer(node, node.assigned[0], tgt_lang="fr")
        await speaker.until_ended(1)
        assert [result.tgt_lang for result in speaker.results] == ["en"]

    play(story)


def test_an_error_names_the_target_it_is_about() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world, tgt_langs=("en", "FR"))
        await speaker.say("bonjour")
        await speaker.until_ended(2)
        (refused,) = speaker.told(Error)
        assert (refused.code, refused.tgt_lang) == ("PAIR_UNSUPPORTED", "FR")
        assert [missing.tgt_lang for missing in speaker.told(MissingResult)] == ["FR"]
        assert [result.tgt_lang for result in speaker.results] == ["en"]

    play(story)


def test_a_target_has_one_order_however_it_is_written() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER, nmt=("zh", "EN"))
        speaker = await open_speaker(world, tgt_lang="En")
        await speaker.say("one")
        await speaker.say("two", tgt_lang="eN")
        await world.until(lambda: len(node.assigned) == 2)
        for assign in reversed(node.assigned):
            await answer(node, assign)
        await speaker.until_ended(2)
        assert [(r.utterance_index, r.tgt_lang) for r in speaker.results] == [(0, "En"), (1, "En")]

    play(story)


def test_an_unknown_source_needs_a_node_for_every_candidate() -> None:
    async def story(world: World) -> None:
        await world.node("zh_only", asr=("zh",))
        both = await world.node("both")
        speaker = await open_speaker(world, src_lang="auto", auto_langs=("zh", "en"))
        for _ in range(4):
            await speaker.speak(50, final=True)
        await speaker.until_ended(4)
        assert {result.node_id for result in speaker.results} == {"both"}
        assert both.assigned[0].src_lang == "auto"
        assert both.assigned[0].auto_langs == ("zh", "en")

    play(story)


def test_an_utterance_may_differ_from_its_session() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", features=("persona_adaptation",))
        speaker = await open_speaker(world)
        await speaker.say("plain")
        await speaker.say("other way", src_lang="en", tgt_lang="zh", request_id="mine")
        await speaker.say("text", pipeline=Pipeline(use_tts=True))
        await speaker.send(Utterance(3, audio=b"\1" * 640, features=("persona_adaptation",)))
        await speaker.until_ended(4)
        plain, other, text, spoken = node.assigned
        assert (plain.src_lang, plain.tgt_lang, plain.text) == ("zh", "en", "plain")
        assert (other.src_lang, other.tgt_lang) == ("en", "zh")
        assert (text.pipeline.use_nmt, text.pipeline.use_tts) == (True, True)
        assert (spoken.features, spoken.cut) == (("persona_adaptation",), Cut.NONE)
        assert spoken.padding_ms == 0
        by_index = {result.utterance_index: result for result in speaker.results}
        assert (by_index[1].request_id, by_index[1].tgt_lang) == ("mine", "zh")

    play(story)


def test_an_utterance_that_makes_no_sense_ends_in_its_place_and_later_ones_flow() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.say("")
        await speaker.say("hello", features=("mind_reading",))
        await speaker.say("hello", src_lang="auto")
        await speaker.say("hello")
        await speaker.until_ended(4)
        assert [end.utterance_index for end in speaker.ends] == [0, 1, 2, 3]
        assert [end.reason for end in speaker.missing] == ["INVALID_MESSAGE"] * 3
        assert [error.utterance_index for error in speaker.told(Error)] == [0, 1, 2]
        assert len(speaker.results) == 1

    play(story)


def test_a_jump_of_the_index_is_refused_and_a_repeat_is_ignored() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        speaker = await open_speaker(world)
        await speaker.send(Utterance(1, text="too far", request_id=RequestId("r")))
        await speaker.send(Utterance(0, text="first"))
        await speaker.send(Utterance(0, text="again"))
        await speaker.send(Utterance(1, text="second"))
        await speaker.until_ended(2)
        (error,) = speaker.told(Error)
        assert (error.code, error.utterance_index, error.request_id) == ("INVALID_MESSAGE", 1, "r")
        assert [assign.text for assign in node.assigned] == ["first", "second"]

    play(story)


def test_an_error_for_a_refused_utterance_names_the_target_that_the_utterance_named() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.send(Utterance(7, text="too far", tgt_lang="en-GB"))
        await speaker.send(Utterance(8, text="too far"))
        await world.until(lambda: len(speaker.told(Error)) == 2)
        named, unnamed = speaker.told(Error)
        assert (named.code, named.utterance_index, named.tgt_lang) == (
            "INVALID_MESSAGE",
            7,
            "en-GB",
        )
        assert (unnamed.utterance_index, unnamed.tgt_lang) == (8, None)

    play(story)


def test_chunks_and_whole_utterances_do_not_mix() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        talker, typist = await open_speaker(world), await open_speaker(world)
        await talker.speak(50)
        await talker.say()
        await typist.say()
        await typist.speak(50)
        for speaker in (talker, typist):
            await speaker.until_ended(1)
            assert speaker.error_codes == ["INVALID_MESSAGE"]

    play(story)


def test_text_of_any_language_survives_the_way_there_and_back() -> None:
    """Cutting text at a byte offset once crashed on Chinese."""

    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        text = "你好，世界🌍" * 300
        await speaker.say(text)
        await world.until(lambda: bool(node.assigned))
        assert node.assigned[0].text == text
        await answer(node, node.assigned[0], text_translated=text[::-1])
        await speaker.until_ended(1)
        assert speaker.results[0].text_translated == text[::-1]

    play(story)


def test_a_session_after_its_close_takes_nothing_more() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(5))
        speaker = await open_speaker(world)
        await speaker.say()
        await asyncio.sleep(1)
        await speaker.send(SessionClose())
        await speaker.say("too late")
        await world.until(lambda: not speaker.connected)
        assert speaker.error_codes == ["SESSION_CLOSED"]
        assert (len(speaker.ends), speaker.close_code) == (1, 1000)

    play(story)
