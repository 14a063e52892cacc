"""From an utterance to what a node is asked to do."""

from __future__ import annotations

import pytest

from dragoman.ids import RequestId, SessionId, TenantId
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import (
    Cut,
    Mode,
    Pipeline,
    ServiceType,
    SessionInit,
    Utterance,
    Vad,
    required_types,
)
from dragoman.live.sessions.orders import WholeUtterance, job_spec, targets_of, whole_utterance
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.segmenter import SegmentRules
from dragoman.live.sessions.voice import VoiceRules

RULES = SessionRules(
    segments=SegmentRules(1000, 10_000, 524_288, 150, 200),
    voice=VoiceRules(Vad.OFF, 120, 200, 500, 8),
    padding_auto_ms=220,
    padding_manual_ms=280,
    heartbeat_interval_seconds=30,
    heartbeat_timeout_seconds=90,
    reorder_window=200,
    gap_grace_seconds=10,
    resume_grace_seconds=60,
    max_inflight=64,
    queue_messages=256,
    queue_bytes=8_388_608,
    first_message_seconds=45,
    max_sessions=100,
    sessions_per_tenant=0,
    semantic=False,
)
ONE_WAY = SessionInit(src_lang="zh", tgt_lang="en")
TWO_WAYS = SessionInit(mode=Mode.TWO_WAY_AUTO, lang_a="zh", lang_b="en")


def spec_of(init: SessionInit, speech: WholeUtterance) -> JobSpec:
    session_id, tenant = SessionId("s-1"), TenantId("red")
    return job_spec(session_id, tenant, init, RULES, speech, speech.targets[0])


def spoken(init: SessionInit, cut: Cut) -> WholeUtterance:
    return WholeUtterance(3, targets_of(init), JobInput(audio=b"\1\2"), cut=cut)


@pytest.mark.parametrize(
    ("cut", "padding_ms"),
    [
        (Cut.FINAL, 280),
        (Cut.PAUSE, 220),
        (Cut.MAX_DURATION, 220),
        (Cut.MAX_BYTES, 220),
        (Cut.CLOSE, 220),
        (Cut.NONE, 0),
    ],
)
def test_padding_depends_on_who_made_the_cut(cut: Cut, padding_ms: int) -> None:
    assert spec_of(ONE_WAY, spoken(ONE_WAY, cut)).padding_ms == padding_ms


def test_text_is_not_padded_and_not_recognised() -> None:
    init = SessionInit(
        src_lang="zh", tgt_lang="en", pipeline=Pipeline(use_asr=True, use_nmt=True, use_tts=True)
    )
    spec = spec_of(init, whole_utterance(init, Utterance(0, text="hello")))
    assert required_types(spec.pipeline) == {ServiceType.NMT, ServiceType.TTS}
    assert (spec.padding_ms, spec.audio_format, spec.sample_rate) == (0, None, None)


@pytest.mark.parametrize(
    ("session", "utterance", "used"),
    [
        (Pipeline(use_tts=True), Utterance(0, text="a"), "nmt tts"),
        (Pipeline(use_tts=False), Utterance(0, audio=b"ab"), "asr nmt"),
        (None, Utterance(0, text="a", pipeline=Pipeline(use_tts=True)), "nmt tts"),
        (
            Pipeline(use_tts=False),
            Utterance(0, audio=b"ab", pipeline=Pipeline(use_nmt=False)),
            "asr",
        ),
    ],
)
def test_a_stage_that_neither_session_nor_utterance_names_has_its_default(
    session: Pipeline | None, utterance: Utterance, used: str
) -> None:
    init = SessionInit(src_lang="zh", tgt_lang="en", pipeline=session)
    spec = spec_of(init, whole_utterance(init, utterance))
    assert required_types(spec.pipeline) == set(map(ServiceType, used.split()))


def test_an_utterance_is_the_same_request_each_time_it_is_sent() -> None:
    assert spec_of(ONE_WAY, spoken(ONE_WAY, Cut.FINAL)).request_id == "s-1/3"
    named = whole_utterance(ONE_WAY, Utterance(0, text="a", request_id=RequestId("mine")))
    assert spec_of(ONE_WAY, named).request_id == "mine"


def test_what_an_utterance_leaves_out_is_as_the_session_says() -> None:
    init = SessionInit(src_lang="zh", tgt_lang="en", features=("emotion_detection",))
    plain = spec_of(init, whole_utterance(init, Utterance(0, audio=b"\1")))
    assert (plain.src_lang, plain.tgt_lang) == ("zh", "en")
    assert plain.features == ("emotion_detection",)
    other = Utterance(0, audio=b"\1", src_lang="fr", tgt_lang="es", features=())
    spec = spec_of(init, whole_utterance(init, other))
    assert (spec.src_lang, spec.tgt_lang, spec.features) == ("fr", "es", ())


def test_two_ways_are_claimed_once_whatever_an_utterance_names() -> None:
    assert targets_of(TWO_WAYS) == ("*",)
    assert whole_utterance(TWO_WAYS, Utterance(0, text="a", tgt_lang="zh")).targets == ("*",)
    spec = spec_of(TWO_WAYS, spoken(TWO_WAYS, Cut.FINAL))
    assert (spec.src_lang, spec.tgt_lang, spec.lang_a, spec.lang_b) == ("zh", "*", "zh", "en")
    assert spec.auto_langs == ()


def test_candidates_go_along_only_when_the_source_is_unknown() -> None:
    init = SessionInit(src_lang="auto", auto_langs=("zh", "en"), tgt_lang="fr")
    assert spec_of(init, spoken(init, Cut.FINAL)).auto_langs == ("zh", "en")
    known = whole_utterance(init, Utterance(0, text="a", src_lang="zh"))
    assert spec_of(init, known).auto_langs == ()
