"""What the type of a single field cannot say about a message that came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from dragoman import voice_activity
from dragoman.errors import InvalidCapabilitySchema, InvalidMessage
from dragoman.ids import shard_of_utterance
from dragoman.live.protocol import problems
from dragoman.live.protocol.client_messages import SessionInit, Utterance
from dragoman.live.protocol.features import (
    chosen_pipeline,
    default_pipeline,
    known_features,
    required_types,
)
from dragoman.live.protocol.languages import AUTO, normal_language, same_language
from dragoman.live.protocol.node_messages import SCHEMA_VERSION, NodeRegister
from dragoman.live.protocol.parts import Pipeline
from dragoman.live.protocol.rest import JobRequest
from dragoman.live.protocol.services import check_services
from dragoman.live.protocol.vocabulary import AudioFormat, Mode, ServiceType, Vad

# --- nodes --------------------------------------------------------------------------------------


def check_register(register: NodeRegister) -> None:
    """Refuse a registration that contradicts itself, with InvalidCapabilitySchema."""
    if register.schema_version != SCHEMA_VERSION:
        raise _bad_capability(
            "schema_version",
            f"is `{register.schema_version}`, which is not supported; send `{SCHEMA_VERSION}`",
        )
    try:  # a registration made in this process has not met the decoder
        msgspec.convert(msgspec.to_builtins(register), NodeRegister)
    except msgspec.ValidationError as error:
        raise register_error(problems.refusal(error, NodeRegister, "node_register")) from error
    if not register.services:
        raise _bad_capability("services", "is empty; list at least one service")
    named = (f"{one.service_id}@{one.version or ''}".rstrip("@") for one in register.services)
    if repeated := _first_repeated(named):
        raise _bad_capability("services", f"names service_id `{repeated}` twice; list it once")
    if repeated := _first_repeated(item.type for item in register.capability_by_type or ()):
        raise _bad_capability("capability_by_type", f"names `{repeated}` twice; list it once")


def register_error(error: InvalidMessage) -> InvalidCapabilitySchema:
    """What a node hears whose registration could not even be decoded."""
    return InvalidCapabilitySchema(error.message, details=error.details)


def _bad_capability(field: str, says: str) -> InvalidCapabilitySchema:
    return InvalidCapabilitySchema(
        f"`{field}` of the node_register {says}",
        details={"type": "node_register", "field": field},
    )


# --- clients ------------------------------------------------------------------------------------


def check_session_init(init: SessionInit) -> None:
    """Refuse a session whose languages, mode, pipeline or features do not go together."""
    if init.mode is Mode.TWO_WAY_AUTO:
        _check_two_ways(init)
    else:
        _check_one_way(init)
    source, targets = _languages(init)
    _check_stages(True, source, targets, init.features, init.pipeline)
    known_features(init.features)
    _check_voice_activity(init)
    check_services(init.services)


def check_utterance(utterance: Utterance) -> None:
    """Refuse an utterance that is neither audio nor text, or that asks for the impossible."""
    _check_input(utterance.audio, utterance.text)
    if utterance.text is not None:
        _check_text(utterance.pipeline)
    known_features(utterance.features or ())
    check_services(utterance.services)


def check_in_session(init: SessionInit, utterance: Utterance) -> None:
    """Refuse an utterance that its session has no language or no stage for."""
    named = utterance.src_lang
    source, targets = _languages(init)
    if init.mode is Mode.TWO_WAY_AUTO:
        _check_way(init, "src_lang", named)
        _check_way(init, "tgt_lang", utterance.tgt_lang)
        if named is not None and same_language(named, utterance.tgt_lang):
            raise _bad("tgt_lang", "is src_lang too; name the other one, or leave it out")
    else:
        if named == AUTO and not init.auto_langs:
            says = "is `auto`, and the session lists no auto_langs; name the language"
            raise _bad("src_lang", says)
        if utterance.tgt_lang is not None:
            targets = (utterance.tgt_lang,)
    _check_stages(
        utterance.audio is not None,
        named or source,
        targets,
        init.features if utterance.features is None else utterance.features,
        utterance.pipeline,
        init.pipeline,
    )


def _check_way(init: SessionInit, field: str, named: str | None) -> None:
    """Refuse a language that is neither of the two of a two_way_auto session."""
    if named is None or named == AUTO:
        return
    if not any(same_language(named, way) for way in (init.lang_a, init.lang_b)):
        raise _bad(
            field,
            f"is `{named}`, and the session goes between `{init.lang_a}` and `{init.lang_b}`; "
            "name one of them, or leave it out",
        )


def check_job_request(request: JobRequest) -> None:
    """Refuse a job that is neither audio nor text, or that asks for the impossible."""
    _check_input(request.audio, request.text)
    if request.request_id is not None and shard_of_utterance(request.request_id) is not None:
        raise _bad("request_id", "is the name of a session's utterance; choose another")
    if request.src_lang == AUTO:
        raise _bad("src_lang", "cannot be `auto` here; name the language, or open a session")
    if request.exclude_node_id is not None and request.exclude_node_id == request.preferred_node_id:
        raise _bad("exclude_node_id", "is also preferred_node_id; leave one of them out")
    if request.text is not None:
        _check_text(request.pipeline)
    _check_stages(
        request.audio is not None,
        request.src_lang,
        (request.tgt_lang,),
        request.features,
        request.pipeline,
    )
    known_features(request.features)
    check_services(request.services)


def _check_one_way(init: SessionInit) -> None:
    if init.src_lang == AUTO and not init.auto_langs:
        raise _bad(
            "src_lang", "is missing or `auto`; name the language, or list candidates in auto_langs"
        )
    if init.tgt_lang is not None and init.tgt_langs:
        raise _bad("tgt_langs", "comes together with tgt_lang; send one of them")
    if not init.targets:
        raise _bad("tgt_lang", "is missing; send tgt_lang, or a list of languages in tgt_langs")
    if repeated := _first_repeated(map(normal_language, init.targets)):
        raise _bad("tgt_langs", f"names `{repeated}` twice; list it once")


def _check_two_ways(init: SessionInit) -> None:
    for field, language in (("lang_a", init.lang_a), ("lang_b", init.lang_b)):
        if language is None:
            raise _bad(field, "is missing; mode two_way_auto needs lang_a and lang_b")
    if same_language(init.lang_a, init.lang_b):
        raise _bad("lang_b", "is the same as lang_a; two_way_auto needs two languages")
    _check_way(init, "src_lang", init.src_lang)


def _check_input(audio: bytes | None, text: str | None) -> None:
    if audio is not None and text is not None:
        raise _bad("audio", "comes together with text; send one of them")
    if not audio and not text:
        field = "text" if text is not None else "audio"
        raise _bad(field, "is missing or empty; send audio or text")


def _languages(init: SessionInit) -> tuple[str, tuple[str, ...]]:
    """What a session's utterances are in and translated into, unless they say otherwise."""
    if init.lang_a is not None and init.lang_b is not None:
        return init.lang_a, (init.lang_b,)
    return init.src_lang, init.targets


def _check_text(pipeline: Pipeline | None) -> None:
    if pipeline is not None and pipeline.use_asr:
        raise _bad("pipeline.use_asr", "needs audio, and the input is text; set it to false")


def _check_stages(
    audio: bool,
    source: str,
    targets: Iterable[str],
    features: tuple[str, ...],
    *chosen: Pipeline | None,
) -> None:
    """Refuse a choice of stages that leaves nothing to do where there would be something."""
    for target in targets:
        default = default_pipeline(audio, source, target, semantic=False)
        left = required_types(chosen_pipeline(default, *chosen))
        if not audio:  # nothing to recognise, whatever the session says
            left -= {ServiceType.ASR}
        if required_types(default) and not left and not features:
            raise _bad("pipeline", "uses no stage; set each stage that is wanted to true")


def _check_voice_activity(init: SessionInit) -> None:
    """Refuse voice activity on audio that no detector reads."""
    if init.vad is None or init.vad is Vad.OFF:
        return
    if init.audio_format is not AudioFormat.PCM16:
        raise _bad(
            "vad",
            f"is `{init.vad}`, which takes samples, and audio_format is `{init.audio_format}`; "
            "send pcm16, or set vad to off",
        )
    if (fault := sample_rate_fault(init.vad, init.sample_rate)) is not None:
        raise _bad("vad", f"{fault}; send another sample_rate, or set vad to off")


def sample_rate_fault(vad: Vad, sample_rate: int) -> str | None:
    """Why a detector does not take audio of this rate, as the end of a sentence; None: it does."""
    rates = voice_activity.RATES[vad.value]
    if sample_rate in rates:
        return None
    return f"is `{vad}`, which takes audio at {_listed(rates)} Hz, not at {sample_rate} Hz"


def _listed(rates: Iterable[int]) -> str:
    return ", ".join(map(str, rates))


def _bad(field: str, says: str) -> InvalidMessage:
    return InvalidMessage(
        f"`{field}` {says}",
        details={"problem": problems.MessageProblem.BAD_FIELD.value, "field": field},
    )


def _first_repeated(names: Iterable[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)
