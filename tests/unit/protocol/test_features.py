from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import (
    NEEDS,
    Feature,
    Pipeline,
    ServiceType,
    chosen_pipeline,
    default_pipeline,
    required_features,
    required_types,
)

ASR, SEMANTIC, NMT, TTS, TONE = ServiceType

NOTHING = Pipeline()


@pytest.mark.parametrize(
    ("feature", "services"),
    [
        ("emotion_detection", {ASR}),
        ("speech_rate_detection", {ASR}),
        ("speech_rate_control", {ASR, TTS}),
        ("speaker_identification", set()),
        ("voice_cloning", {TONE}),
        ("voice_style_detection", {TONE}),
        ("persona_adaptation", {ASR}),
    ],
)
def test_a_feature_needs_its_services_and_those_of_the_features_under_it(
    feature: str, services: set[ServiceType]
) -> None:
    assert required_types(NOTHING, [feature]) == services


def test_every_feature_says_what_it_needs() -> None:
    assert set(NEEDS) == set(Feature)


def test_a_feature_brings_the_features_under_it() -> None:
    assert required_features(["voice_style_detection"]) == {
        Feature.VOICE_STYLE_DETECTION,
        Feature.VOICE_CLONING,
        Feature.SPEAKER_IDENTIFICATION,
    }


@given(st.sets(st.sampled_from(Feature)), st.sets(st.sampled_from(Feature)))
def test_asking_for_more_never_needs_less(some: set[Feature], more: set[Feature]) -> None:
    both = required_types(NOTHING, some | more)
    assert both == required_types(NOTHING, some) | required_types(NOTHING, more)


@given(st.builds(Pipeline, *[st.booleans()] * 5))
def test_each_stage_needs_its_service(pipeline: Pipeline) -> None:
    used = {service for service in ServiceType if getattr(pipeline, f"use_{service}")}
    assert required_types(pipeline) == used


def test_a_stage_that_is_not_chosen_has_its_default() -> None:
    speech = default_pipeline(audio=True, src="zh", tgt="en", semantic=False)
    text = default_pipeline(audio=False, src="zh", tgt="en", semantic=False)

    assert required_types(chosen_pipeline(text, Pipeline(use_tts=True))) == {NMT, TTS}
    assert required_types(chosen_pipeline(speech, Pipeline(use_tts=False))) == {ASR, NMT}
    assert required_types(chosen_pipeline(speech, Pipeline())) == required_types(speech)
    assert required_types(chosen_pipeline(speech, None)) == required_types(speech)


def test_an_utterance_decides_before_its_session_and_the_session_before_the_default() -> None:
    speech = default_pipeline(audio=True, src="zh", tgt="en", semantic=False)
    session = Pipeline(use_tts=False, use_nmt=False)

    found = chosen_pipeline(speech, Pipeline(use_nmt=True), session)

    assert required_types(found) == {ASR, NMT}


def test_an_unknown_feature_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidMessage, match=r"`telepathy`.*emotion_detection, speech_rate"):
        required_types(NOTHING, ["telepathy"])


def test_the_default_pipeline_follows_the_input_and_the_pair() -> None:
    speech = default_pipeline(audio=True, src="zh", tgt="en", semantic=False)
    assert required_types(speech) == {ASR, NMT, TTS}
    text = default_pipeline(audio=False, src="zh", tgt="en", semantic=False)
    assert required_types(text) == {NMT}, "text for text; speech is asked for with use_tts"
    repaired = default_pipeline(audio=True, src="zh", tgt="en", semantic=True)
    assert required_types(repaired) == {ASR, SEMANTIC, NMT, TTS}
    same_language = default_pipeline(audio=True, src="en", tgt="EN", semantic=False)
    assert required_types(same_language) == {ASR, TTS}
