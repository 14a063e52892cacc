from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.errors import InvalidCapabilitySchema, InvalidMessage
from dragoman.ids import NodeId, RequestId
from dragoman.live.protocol import (
    FROM_CLIENT,
    FROM_NODE,
    Capability,
    Device,
    Hardware,
    JobRequest,
    Languages,
    Mode,
    NodeRegister,
    Pipeline,
    RequestedPipeline,
    Service,
    ServiceStatus,
    ServiceType,
    SessionInit,
    SubProtocol,
    Utterance,
    check_in_session,
    check_job_request,
    check_register,
    check_session_init,
    check_utterance,
    register_error,
)

NMT = Service("nmt-1", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING)
REGISTER = NodeRegister(
    version="1",
    schema_version="2.0",
    platform="linux",
    hardware=Hardware(cpu_cores=2, memory_gb=4),
    services=(NMT,),
    languages=Languages(nmt_langs=("en", "es")),
)


def changed(**fields: Any) -> NodeRegister:
    return msgspec.structs.replace(REGISTER, **fields)


def test_a_good_registration_passes() -> None:
    check_register(REGISTER)
    check_register(changed(max_concurrent_jobs=1, capability_by_type=()))


@pytest.mark.parametrize(
    ("register", "field", "says"),
    [
        (changed(schema_version="1.0"), "schema_version", "send `2.0`"),
        (changed(services=()), "services", "at least one service"),
        (changed(services=(NMT, NMT)), "services", "`nmt-1` twice"),
        (changed(max_concurrent_jobs=0), "max_concurrent_jobs", ">= 1"),
        (changed(max_concurrent_jobs=10**9), "max_concurrent_jobs", "<= 10000"),
        (changed(languages=Languages(tts_langs=("e",))), "languages.tts_langs[0]", "length >= 2"),
        (changed(languages=Languages(asr_langs=("auto",))), "languages.asr_langs[0]", "src_lang"),
        (changed(node_id=NodeId("")), "node_id", "length >= 1"),
        (
            changed(capability_by_type=(Capability(ServiceType.NMT, True),) * 2),
            "capability_by_type",
            "`nmt` twice",
        ),
    ],
)
def test_a_bad_registration_is_refused_with_the_field_and_the_remedy(
    register: NodeRegister, field: str, says: str
) -> None:
    with pytest.raises(InvalidCapabilitySchema) as caught:
        check_register(register)
    assert caught.value.details["field"] == field
    assert says in caught.value.message


def test_a_registration_that_cannot_be_decoded_is_also_a_bad_capability_schema() -> None:
    with pytest.raises(InvalidMessage) as caught:
        FROM_NODE.decode('{"type":"node_register","version":"1"}', SubProtocol.JSON)
    error = register_error(caught.value)
    assert error.code == "INVALID_CAPABILITY_SCHEMA"
    assert error.details["field"] == "schema_version"


NO_STAGE = Pipeline(use_asr=False, use_nmt=False, use_tts=False)


@pytest.mark.parametrize(
    "init",
    [
        SessionInit(src_lang="en", tgt_lang="es"),
        SessionInit(src_lang="en", tgt_lang="es", pipeline=Pipeline()),
        SessionInit(src_lang="en", tgt_lang="es", pipeline=Pipeline(use_tts=False)),
        SessionInit(src_lang="en", tgt_lang="en"),
        SessionInit(src_lang="en", tgt_langs=("es", "zh"), features=("voice_cloning",)),
        SessionInit(src_lang="auto", auto_langs=("en", "zh"), tgt_lang="es"),
        SessionInit(mode=Mode.TWO_WAY_AUTO, lang_a="en", lang_b="zh"),
        SessionInit(mode=Mode.TWO_WAY_AUTO, src_lang="auto", lang_a="en", lang_b="zh"),
        SessionInit(mode=Mode.TWO_WAY_AUTO, src_lang="ZH", lang_a="en", lang_b="zh"),
        SessionInit(src_lang="en", tgt_lang="es", pipeline=Pipeline(use_nmt=True)),
    ],
)
def test_a_good_session_passes(init: SessionInit) -> None:
    check_session_init(init)


@pytest.mark.parametrize(
    ("init", "field"),
    [
        (SessionInit(tgt_lang="es"), "src_lang"),
        (SessionInit(src_lang="auto", tgt_lang="es"), "src_lang"),
        (SessionInit(src_lang="en"), "tgt_lang"),
        (SessionInit(src_lang="en", tgt_lang="es", tgt_langs=("zh",)), "tgt_langs"),
        (SessionInit(src_lang="en", tgt_langs=("es", "ES")), "tgt_langs"),
        (SessionInit(mode=Mode.TWO_WAY_AUTO, lang_a="en"), "lang_b"),
        (SessionInit(mode=Mode.TWO_WAY_AUTO, lang_b="en"), "lang_a"),
        (SessionInit(mode=Mode.TWO_WAY_AUTO, lang_a="en", lang_b="EN"), "lang_b"),
        (SessionInit(mode=Mode.TWO_WAY_AUTO, src_lang="fr", lang_a="en", lang_b="zh"), "src_lang"),
        (SessionInit(src_lang="en", tgt_lang="es", features=("telepathy",)), "features"),
        (SessionInit(src_lang="en", tgt_lang="es", pipeline=NO_STAGE), "pipeline"),
    ],
)
def test_a_session_that_contradicts_itself_is_refused(init: SessionInit, field: str) -> None:
    with pytest.raises(InvalidMessage, match=f"`{field}`") as caught:
        check_session_init(init)
    assert caught.value.details["field"] == field


def test_an_utterance_is_either_audio_or_text() -> None:
    check_utterance(Utterance(0, audio=b"\0\0"))
    check_utterance(Utterance(0, text="hello"))
    for bad in (
        Utterance(0),
        Utterance(0, text=""),
        Utterance(0, audio=b""),
        Utterance(0, audio=b"\0\0", text="hello"),
    ):
        with pytest.raises(InvalidMessage, match=r"send audio or text|send one of them"):
            check_utterance(bad)


def test_text_has_nothing_to_recognise() -> None:
    with pytest.raises(InvalidMessage, match=r"`pipeline\.use_asr` needs audio"):
        check_utterance(Utterance(0, text="hello", pipeline=Pipeline(use_asr=True)))


def test_an_utterance_with_an_unknown_feature_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="unknown feature `telepathy`"):
        check_utterance(Utterance(0, text="hello", features=("telepathy",)))


def test_a_choice_of_services_names_stages_and_services() -> None:
    session = b'{"type":"session_init","src_lang":"en","tgt_lang":"es","services":%s}'
    utterance = b'{"type":"utterance","utterance_index":0,"text":"hello","services":%s}'
    for chosen in (b"{}", b"null", b'{"asr":"whisper"}', b'{"tone":"a@b@1","nmt":"m2m 100@1 b"}'):
        check_client_message(session % chosen)
        check_client_message(utterance % chosen)
    for stage, name, field in (
        ("hearing", "whisper", "services"),
        ("ASR", "whisper", "services"),
        ("asr", "", "services.asr"),
        ("nmt", "@2", "services.nmt"),
        ("nmt", "m2m@", "services.nmt"),
        ("tts", "pi\nper", "services.tts"),
        ("tts", " piper", "services.tts"),
    ):
        asked = msgspec.json.encode({stage: name})
        for frame in (session % asked, utterance % asked):
            with pytest.raises(InvalidMessage) as refused:
                check_client_message(frame)
            assert refused.value.details["field"] == field
        with pytest.raises(InvalidMessage, match=f"`{field}`"):
            check_job_request(JobRequest("en", "es", text="a", services={stage: name}))
    for wrong in (b'{"asr":5}', b'["asr"]', b'{"asr":"%s"}' % (b"x" * 401)):
        with pytest.raises(InvalidMessage, match="services"):
            check_client_message(session % wrong)


def test_a_node_may_run_two_versions_of_a_service() -> None:
    two = (
        msgspec.structs.replace(NMT, version="1"),
        msgspec.structs.replace(NMT, version="2"),
    )
    check_register(changed(services=two))
    with pytest.raises(InvalidCapabilitySchema, match="`nmt-1@2` twice"):
        check_register(changed(services=(*two, two[1])))


SESSION = '{"type":"session_init","src_lang":"en","tgt_lang":"es"}'


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ('"vad":"webrtc","audio_format":"opus"', "audio_format is `opus`; send pcm16"),
        ('"vad":"silero","audio_format":"wav"', "audio_format is `wav`; send pcm16"),
        ('"vad":"webrtc","sample_rate":44100', "takes audio at 8000, 16000, 32000, 48000 Hz, not"),
        ('"vad":"silero","sample_rate":8000', "takes audio at 16000 Hz, not at 8000 Hz"),
        ('"vad":"magic"', "magic"),
        ('"vad":7', "vad"),
    ],
)
def test_voice_activity_on_audio_that_no_detector_reads_is_refused_by_its_field(
    said: str, says: str
) -> None:
    frame = SESSION.replace("}", f",{said}}}")
    with pytest.raises(InvalidMessage, match=says) as refused:
        check_client_message(frame.encode())
    assert refused.value.details["field"] == "vad"
    assert refused.value.status == 422


@pytest.mark.parametrize("field", ["min_speech_ms", "pre_roll_ms"])
@pytest.mark.parametrize("value", ["-1", "10001", '"long"'])
def test_times_of_voice_activity_are_bounded(field: str, value: str) -> None:
    frame = SESSION.replace("}", f',"{field}":{value}}}')
    with pytest.raises(InvalidMessage) as refused:
        check_client_message(frame.encode())
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("vad", ["off", "webrtc", "silero"])
def test_voice_activity_on_samples_is_taken(vad: str) -> None:
    frame = SESSION.replace("}", f',"vad":"{vad}"}}')
    check_client_message(frame.encode())


def check_client_message(frame: bytes) -> None:
    message = FROM_CLIENT.decode(frame.decode(), SubProtocol.JSON)
    if isinstance(message, SessionInit):
        check_session_init(message)
    else:
        assert isinstance(message, Utterance)
        check_utterance(message)


NODE = NodeId("n-1")
OF_AN_UTTERANCE = RequestId("s-9e7fccf36e496c0c6df0e28a/0")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (JobRequest("en", "es"), "audio"),
        (JobRequest("en", "es", text=""), "text"),
        (JobRequest("en", "es", text="a", audio=b"a"), "audio"),
        (JobRequest("auto", "es", text="a"), "src_lang"),
        (JobRequest("en", "es", text="a", request_id=OF_AN_UTTERANCE), "request_id"),
        (JobRequest("en", "es", text="a", features=("x",)), "features"),
        (JobRequest("en", "es", text="a", pipeline=RequestedPipeline(use_nmt=False)), "pipeline"),
        (
            JobRequest("en", "es", text="a", preferred_node_id=NODE, exclude_node_id=NODE),
            "exclude_node_id",
        ),
    ],
)
def test_a_job_request_that_contradicts_itself_is_refused(request_: JobRequest, field: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        check_job_request(request_)
    assert caught.value.details["field"] == field


@pytest.mark.parametrize(
    "request_id", ["s-1/0", "s-9e7fccf36e496c0c6df0e28a", "n-9e7fccf36e496c0c6df0e28a/0", "a/b"]
)
def test_a_request_may_have_any_other_name(request_id: str) -> None:
    check_job_request(JobRequest("en", "es", text="a", request_id=RequestId(request_id)))


def test_a_good_job_request_passes() -> None:
    check_job_request(JobRequest("en", "es", text="a", preferred_node_id=NODE))
    for pipeline in (
        RequestedPipeline(),
        RequestedPipeline(use_asr=True),
        RequestedPipeline(use_tts=False),
        RequestedPipeline(use_asr=False, use_nmt=False),
    ):
        check_job_request(JobRequest("en", "es", audio=b"a", pipeline=pipeline))
    # Nothing is to be done with it in any case.
    check_job_request(JobRequest("en", "en", text="a", pipeline=RequestedPipeline(use_tts=False)))


@pytest.mark.parametrize(
    ("session", "utterance", "works"),
    [
        (None, None, True),
        (Pipeline(use_tts=False), None, True),
        (Pipeline(use_nmt=False), None, False),
        (Pipeline(use_nmt=False), Pipeline(use_nmt=True), True),
        (Pipeline(use_nmt=False, use_tts=True), None, True),
        (Pipeline(use_asr=True, use_nmt=False), None, False),
        (None, Pipeline(use_nmt=False), False),
    ],
)
def test_a_text_that_no_stage_is_left_for_is_refused(
    session: Pipeline | None, utterance: Pipeline | None, works: bool
) -> None:
    init = SessionInit(src_lang="en", tgt_lang="es", pipeline=session)
    check_session_init(init)
    text = Utterance(0, text="hello", pipeline=utterance)
    if works:
        check_in_session(init, text)
    else:
        with pytest.raises(InvalidMessage, match="`pipeline` uses no stage"):
            check_in_session(init, text)
    check_in_session(init, Utterance(0, audio=b"\0\0", pipeline=utterance))
