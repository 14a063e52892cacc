"""From an utterance to the jobs it becomes: one for each target language."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.ids import RequestId, SessionId, TenantId
from dragoman.live.dispatch import AUTO_TARGET, utterance_request_id
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import (
    AUTO,
    Cut,
    Mode,
    Pipeline,
    SessionInit,
    Utterance,
    chosen_pipeline,
    default_pipeline,
    required_types,
    same_language,
    services_of,
)
from dragoman.live.sessions.rules import SessionRules


class WholeUtterance(msgspec.Struct, frozen=True):
    """What an utterance asks for, however it came."""

    index: int
    targets: tuple[str, ...]
    input: JobInput
    cut: Cut = Cut.NONE
    request_id: RequestId | None = None
    src_lang: str | None = None
    pipeline: Pipeline | None = None
    features: tuple[str, ...] | None = None
    services: Mapping[str, str] | None = None


def whole_utterance(init: SessionInit, message: Utterance) -> WholeUtterance:
    """An utterance the client cut itself."""
    return WholeUtterance(
        message.utterance_index,
        targets_for(init, message),
        JobInput(message.audio, message.text),
        request_id=message.request_id,
        src_lang=_spoken_in(init, message),
        pipeline=message.pipeline,
        features=message.features,
        services=message.services,
    )


def targets_of(init: SessionInit) -> tuple[str, ...]:
    """The orders results come in: one for each target, or a single one for two ways."""
    return (AUTO_TARGET,) if init.mode is Mode.TWO_WAY_AUTO else init.targets


def targets_for(init: SessionInit, message: Utterance) -> tuple[str, ...]:
    """The orders an utterance belongs to; two ways have one, whatever the utterance names."""
    named = message.tgt_lang
    if named is None or init.mode is Mode.TWO_WAY_AUTO:
        return targets_of(init)
    # A target of the session has one order, however an utterance writes it.
    return (next((own for own in init.targets if same_language(own, named)), named),)


def _spoken_in(init: SessionInit, message: Utterance) -> str | None:
    """What the utterance says it is spoken in. Of two ways, its target says so as well."""
    named, target = message.src_lang, message.tgt_lang
    if init.mode is not Mode.TWO_WAY_AUTO or target is None or named not in (None, AUTO):
        return named
    return init.lang_b if same_language(target, init.lang_a) else init.lang_a


def trace_id_of(session_id: SessionId, init: SessionInit, index: int) -> str:
    """The trace of an utterance: the client's, or one of its own, the same when it is resent."""
    return init.trace_id or f"{session_id.removeprefix('s-')}{index:08x}"


def job_spec(
    session_id: SessionId,
    tenant: TenantId,
    init: SessionInit,
    rules: SessionRules,
    speech: WholeUtterance,
    target: str,
) -> JobSpec:
    """What a node is asked to do with an utterance for one target."""
    source = _source(init, speech)
    audio = speech.input.audio is not None
    default = default_pipeline(audio, source, target, rules.semantic)
    pipeline = chosen_pipeline(default, speech.pipeline, init.pipeline)
    if not audio and pipeline.use_asr:  # the session recognises speech, and this is text
        pipeline = msgspec.structs.replace(pipeline, use_asr=False)
    features = init.features if speech.features is None else speech.features
    return JobSpec(
        tenant=tenant,
        request_id=speech.request_id or utterance_request_id(session_id, speech.index),
        src_lang=source,
        tgt_lang=target,
        pipeline=pipeline,
        features=features,
        mode=init.mode,
        lang_a=init.lang_a,
        lang_b=init.lang_b,
        auto_langs=init.auto_langs if source == AUTO else (),
        audio_format=init.audio_format if audio else None,
        sample_rate=init.sample_rate if audio else None,
        cut=speech.cut,
        padding_ms=rules.padding_ms(speech.cut) if audio else 0,
        session_id=session_id,
        utterance_index=speech.index,
        preferred_node_id=init.preferred_node_id,
        trace_id=trace_id_of(session_id, init, speech.index),
        services=services_of(required_types(pipeline, features), speech.services, init.services),
    )


def _source(init: SessionInit, speech: WholeUtterance) -> str:
    """What the utterance is spoken in. Of two ways it is one of the two, the first unless said."""
    named = speech.src_lang or init.src_lang
    if init.mode is not Mode.TWO_WAY_AUTO or init.lang_a is None:
        return named
    return named if same_language(named, init.lang_b) else init.lang_a
