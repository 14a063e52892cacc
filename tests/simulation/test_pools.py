"""Which nodes get which jobs: pools by kind, stages, and what a refusal says."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.simulation.world import World, play

from dragoman.errors import DragomanError, NoCapacity, PairUnsupported
from dragoman.ids import NodeId
from dragoman.live.protocol import (
    Languages,
    Mode,
    NodeHeartbeat,
    NodeStatus,
    Pipeline,
    ResourceUsage,
)
from dragoman.testing import seconds

SPEECH_TO_SPEECH = Pipeline(use_asr=True, use_nmt=True, use_tts=True)
SPEECH_TO_TEXT = Pipeline(use_asr=True, use_nmt=True)
TEXT_TO_SPEECH = Pipeline(use_nmt=True, use_tts=True)
TEXT_TO_TEXT = Pipeline(use_nmt=True)
TRANSCRIPTION = Pipeline(use_asr=True)

NOTHING: dict[str, Any] = {"asr": (), "nmt": (), "tts": ()}


def refusal_of(errand_refusal: DragomanError | None, kind: type[DragomanError]) -> dict[str, Any]:
    assert isinstance(errand_refusal, kind)
    return errand_refusal.details


@pytest.mark.parametrize(
    ("knows", "taken"),
    [
        pytest.param({"nmt": ("zh", "en")}, {TEXT_TO_TEXT}, id="translates"),
        pytest.param(
            {"nmt": ("zh", "en"), "tts": ("en",)},
            {TEXT_TO_TEXT, TEXT_TO_SPEECH},
            id="translates and speaks",
        ),
        pytest.param(
            {"asr": ("zh",), "nmt": ("zh", "en")},
            {TEXT_TO_TEXT, SPEECH_TO_TEXT},
            id="recognises and translates",
        ),
        pytest.param(
            {"asr": ("zh",), "nmt": ("zh", "en"), "tts": ("en",)},
            {TEXT_TO_TEXT, TEXT_TO_SPEECH, SPEECH_TO_TEXT, SPEECH_TO_SPEECH},
            id="does everything",
        ),
        pytest.param({"asr": ("zh",), "tts": ("en",)}, set(), id="does not translate"),
    ],
)
def test_a_node_gets_the_jobs_whose_stages_know_the_languages(
    knows: dict[str, tuple[str, ...]], taken: set[Pipeline]
) -> None:
    async def story(world: World) -> None:
        await world.node("n", **{**NOTHING, **knows})
        for pipeline in (TEXT_TO_TEXT, TEXT_TO_SPEECH, SPEECH_TO_TEXT, SPEECH_TO_SPEECH):
            errand = await world.submit(f"{pipeline}", pipeline=pipeline, may_wait=True)
            if pipeline in taken:
                await errand.end()
            else:
                refusal_of(errand.refusal, PairUnsupported)

    play(story)


def test_a_node_that_only_recognises_transcribes() -> None:
    async def story(world: World) -> None:
        await world.node("n", **{**NOTHING, "asr": ("en",)})
        errand = await world.submit(
            "r", src_lang="en", tgt_lang="en", pipeline=TRANSCRIPTION, may_wait=True
        )
        await errand.end()

    play(story)


def test_an_acknowledgement_counts_the_pools_of_all_kinds() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", asr=("en",), nmt=("en", "es"), tts=("es",))
        assert node.ack is not None
        # en:es four times; en:en for speech and text in; es:es for text in; es:en for text.
        assert node.ack.pools == 9

    play(story)


def test_a_node_in_no_pool_is_told_what_it_lacks_and_so_is_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        with caplog.at_level(logging.WARNING, logger="dragoman.fleet"):
            node = await world.node("lonely", **NOTHING)
        assert node.ack is not None
        assert node.ack.pools == 0
        [status] = [message for message in node.heard if isinstance(message, NodeStatus)]
        assert status.reason is not None
        assert status.reason.startswith("in no pool: it lists no languages")
        await node.say(
            NodeHeartbeat(ResourceUsage(1, 1), (), languages=Languages(nmt_langs=("en", "es")))
        )
        await world.pass_time(0.1)
        errand = await world.submit("r", src_lang="en", tgt_lang="es", pipeline=TEXT_TO_TEXT)
        await errand.end()

    play(story)
    [warned] = [record for record in caplog.records if record.getMessage() == "node_in_no_pool"]
    said = repr(warned.__dict__)
    assert "lonely" in said
    assert "nmt_langs" in said


# --- languages -----------------------------------------------------------------------------------


def test_tags_are_one_language_in_any_case_and_stay_as_they_were_sent() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", asr=("zh-TW",), nmt=("zh-TW", "en"), tts=("en",))
        errand = await world.submit("r", src_lang="ZH-tw", tgt_lang="EN", may_wait=True)
        again = await world.submit("r", src_lang="zh-TW", tgt_lang="en", may_wait=True)
        record = await errand.end()
        assert (again.job_id, again.created) == (errand.job_id, False)
        assert [(told.src_lang, told.tgt_lang) for told in node.assigned] == [("ZH-tw", "EN")]
        assert (record.spec.src_lang, record.spec.tgt_lang) == ("ZH-tw", "EN")

    play(story)


@pytest.mark.parametrize(
    ("src_lang", "assigned"), [("zh", ("zh", "en")), ("en", ("en", "zh")), ("EN", ("EN", "zh"))]
)
def test_of_two_ways_a_job_goes_the_one_its_source_does_not(
    src_lang: str, assigned: tuple[str, str]
) -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        errand = await world.submit(
            "r",
            src_lang=src_lang,
            tgt_lang="*",
            mode=Mode.TWO_WAY_AUTO,
            lang_a="zh",
            lang_b="en",
        )
        await errand.end()
        assert [(told.src_lang, told.tgt_lang) for told in node.assigned] == [assigned]

    play(story)


def test_a_pair_that_no_waiting_can_mend_is_refused_at_once() -> None:
    async def story(world: World) -> None:
        await world.node("n", asr=("zh",), nmt=("zh",), tts=("en",))
        began = world.clock.monotonic()
        errand = await world.submit("r", pipeline=SPEECH_TO_SPEECH, may_wait=True)
        details = refusal_of(errand.refusal, PairUnsupported)
        assert world.clock.monotonic() == began
        assert (details["src_lang"], details["tgt_lang"]) == ("zh", "en")
        assert "near" not in details

    play(story)


def test_a_refusal_names_near_relatives_that_are_served() -> None:
    async def story(world: World) -> None:
        await world.node("n", asr=(), nmt=("zh", "zh-Hans", "en"), tts=())
        errand = await world.submit("r", src_lang="zh-TW", pipeline=TEXT_TO_TEXT, may_wait=True)
        details = refusal_of(errand.refusal, PairUnsupported)
        assert details["near"] == ["zh", "zh-Hans"]
        assert errand.refusal is not None
        assert "zh-TW:en" in errand.refusal.message

    play(story)


# --- the line ------------------------------------------------------------------------------------


def test_a_tenant_s_waiting_job_does_not_block_another_s_private_node() -> None:
    async def story(world: World) -> None:
        await world.node("private", public=False)
        blocked = await world.submit(
            "r1", tenant="other", preferred_node_id=NodeId("private"), may_wait=True
        )
        assert blocked.refusal is None, "it waits, in vain"
        own = await world.submit("r2", preferred_node_id=NodeId("private"), may_wait=True)
        record = await own.end(seconds=5)
        assert record.attempts[-1].node_id == "private"

    play(story)


def test_an_explanation_says_that_a_job_stands_in_line() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(1))
        await world.submit("taken")
        looked = await world.submit("looked", may_wait=True)
        behind = await world.submit("behind", may_wait=True)
        explain = world.plane.dispatcher.explain
        first, second = explain(looked.job_id), explain(behind.job_id)
        assert first is not None
        assert first.waiting is not None
        assert (first.waiting.pool, first.waiting.in_line) == ("zh:en", 2)
        assert first.waiting.code == NoCapacity.code
        assert [attempt.chosen for attempt in first.attempts] == [None]
        assert second is not None
        assert second.waiting is not None
        assert (second.attempts, second.waiting.code) == ((), None)
        await behind.end()
        after = explain(behind.job_id)
        assert after is not None
        assert (after.waiting, after.attempts[-1].chosen) == (None, "n")

    play(story)
