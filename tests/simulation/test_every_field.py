"""What a client asks for in a field of its own reaches the node, and only with that utterance."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from tests.simulation.speakers import open_speaker
from tests.simulation.world import World, play

from dragoman.api.live.job_orders import order_of
from dragoman.ids import AttemptId, JobId, TenantId
from dragoman.live.dispatch.job import assignment_of
from dragoman.live.protocol import JobAssign, JobClass, JobRequest, Pipeline, Utterance
from dragoman.live.snapshot import PoolRule
from dragoman.testing import seconds

PIPELINE = Pipeline(use_asr=False, use_semantic=False, use_nmt=True, use_tts=True, use_tone=False)

OF_UTTERANCES: dict[str, tuple[object, str, object]] = {
    "src_lang": ("fr", "src_lang", "fr"),
    "tgt_lang": ("es", "tgt_lang", "es"),
    "pipeline": (PIPELINE, "pipeline", PIPELINE),
    "features": (("persona_adaptation",), "features", ("persona_adaptation",)),
    "services": ({"nmt": "nmt-1"}, "services", {"nmt": "nmt-1"}),
}
"""Of each optional field: a value, the field of job_assign that it decides, and how."""

NOT_TOLD = {"utterance_index", "request_id", "audio", "text"}
"""What an utterance is, and not how it is to be worked on."""

OF_REQUESTS: dict[str, tuple[object, str, object]] = {
    "pipeline": (msgspec.to_builtins(PIPELINE), "pipeline", PIPELINE),
    "features": (("persona_adaptation",), "features", ("persona_adaptation",)),
    "class": ("batch", "job_class", JobClass.BATCH),
    "session_id": ("s-1", "session_id", "s-1"),
    "services": ({"nmt": "nmt-1"}, "services", {"nmt": "nmt-1"}),
}
NOT_TOLD_OF_REQUESTS = {
    *("src_lang", "tgt_lang", "text", "audio", "audio_format", "sample_rate", "request_id"),
    *("preferred_node_id", "exclude_node_id", "tenant_id", "wait_ms", "result_audio"),
}


def test_every_field_is_looked_at() -> None:
    assert {*OF_UTTERANCES, *NOT_TOLD} == set(Utterance.__struct_encode_fields__)
    assert {*OF_REQUESTS, *NOT_TOLD_OF_REQUESTS} == set(JobRequest.__struct_encode_fields__)


@pytest.mark.parametrize("field", OF_UTTERANCES)
def test_a_field_of_an_utterance_reaches_the_node_and_not_the_next_utterance(field: str) -> None:
    asked, told_in, told = OF_UTTERANCES[field]

    async def story(world: World) -> None:
        languages = ("zh", "en", "fr", "es")
        node = await world.node(
            "n",
            asr=languages,
            nmt=languages,
            tts=languages,
            features=("persona_adaptation",),
            service=seconds(0.1),
        )
        speaker = await open_speaker(world)
        for fields in ({}, {field: asked}, {}):
            await speaker.say("hello", **fields)
        await speaker.until_ended(3)
        seen = [getattr(assign, told_in) for assign in node.assigned]
        assert seen[1] == told
        assert seen[0] == seen[2] != told

    play(story)


@pytest.mark.parametrize("field", OF_REQUESTS)
def test_a_field_of_a_request_reaches_the_node(field: str) -> None:
    asked, told_in, told = OF_REQUESTS[field]

    def assigned(**fields: Any) -> JobAssign:
        body = {"src_lang": "en", "tgt_lang": "es", "text": "hello", **fields}
        request = msgspec.convert(body, JobRequest)
        order = order_of(request, TenantId("t"), PoolRule.ASR_TTS, Random(1))
        return assignment_of(JobId("j"), order.spec, order.input, AttemptId("a"), 1)

    assert getattr(assigned(**{field: asked}), told_in) == told
    assert getattr(assigned(), told_in) != told
