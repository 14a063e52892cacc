from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from dragoman.live.protocol import (
    ClientToScheduler,
    Error,
    ErrorInfo,
    Gpu,
    Hardware,
    Languages,
    NodeToScheduler,
    Pipeline,
    ResourceUsage,
    RunningJob,
    SchedulerToClient,
    SchedulerToNode,
    Scheduling,
    Service,
    SessionInit,
    default_pipeline,
)
from dragoman.live.protocol.message import wire_type

# What the protocol promises to everyone outside: ``?`` marks what may be left out.
NODE_TO_SCHEDULER = {
    "node_register": "node_id? registration_token? version schema_version platform hardware "
    "services capability_by_type? languages features? max_concurrent_jobs? accept_public_jobs? "
    "running?",
    "node_heartbeat": "resource_usage running services? capability_by_type? languages? "
    "max_concurrent_jobs?",
    "job_ack": "job_id attempt_id",
    "job_started": "job_id attempt_id",
    "job_partial": "job_id attempt_id text is_final",
    "job_result": "job_id attempt_id success text_asr? text_translated? src_lang_detected? "
    "tgt_lang? tts_audio? tts_format? timings? usage? quality_score? extra? error?",
    "model_not_available": "service_id version? reason job_id? attempt_id?",
    "node_drain": "reason?",
    "node_error": "code message details?",
}
SCHEDULER_TO_NODE = {
    "node_register_ack": "node_id registration_token instance_id status heartbeat_interval_ms "
    "cell pools cancel max_frame_bytes?",
    "node_status": "status reason?",
    "job_assign": "job_id attempt_id trace_id class src_lang tgt_lang mode lang_a? lang_b? "
    "auto_langs? pipeline features audio? audio_format? sample_rate? text? padding_ms cut "
    "deadline_ms session_id? utterance_index? services? context? glossary? traceparent?",
    "job_cancel": "job_id attempt_id reason",
    "node_control": "command reason?",
    "error": "code message retry_after_ms? details? utterance_index? tgt_lang? request_id?",
}
CLIENT_TO_SCHEDULER = {
    "session_init": "src_lang? tgt_lang? tgt_langs? mode? lang_a? lang_b? auto_langs? pipeline? "
    "features? tenant_id? preferred_node_id? audio_format? sample_rate? vad? min_speech_ms? "
    "pre_roll_ms? services? "
    "ui_events? client_version? platform? trace_id? resume_token? last_delivery_seq?",
    "audio_chunk": "seq is_final payload?",
    "utterance": "utterance_index request_id? audio? text? src_lang? tgt_lang? pipeline? features? "
    "services?",
    "client_heartbeat": "last_delivery_seq?",
    "session_close": "reason?",
}
SCHEDULER_TO_CLIENT = {
    "session_init_ack": "session_id resume_token resumed next_chunk_seq next_utterance_index "
    "protocol_version instance_id heartbeat_interval_ms listen_token?",
    "translation_result": "delivery_seq session_id utterance_index tgt_lang job_id request_id "
    "text_asr? text_translated? src_lang_detected? tts_audio? tts_format? node_id? timings? "
    "scheduling quality_score? extra?",
    "missing_result": "delivery_seq session_id utterance_index tgt_lang? job_id? reason",
    "asr_partial": "session_id utterance_index job_id text is_final",
    "ui_event": "session_id utterance_index job_id? event elapsed_ms status error_code?",
    "backpressure": "action resume_after_ms?",
    "error": SCHEDULER_TO_NODE["error"],
    "server_heartbeat": "next_chunk_seq",
    "session_close_ack": "",
}
PARTS: dict[type[msgspec.Struct], str] = {
    Hardware: "cpu_cores memory_gb gpus?",
    Gpu: "name memory_gb",
    Service: "service_id type version? model_id? device status",
    ResourceUsage: "cpu_percent gpu_percent? gpu_mem_percent? mem_percent",
    RunningJob: "job_id attempt_id",
    Scheduling: "queued_ms dispatch_ms node_ms total_ms attempts speech_end_to_result_ms? "
    "speech_end_to_text_ms? speech_end_to_translation_ms? speech_end_to_audio_ms?",
    ErrorInfo: "code message retryable? details?",
}


def promised(struct: type[msgspec.Struct]) -> set[str]:
    return {
        field.encode_name + ("" if field.required else "?")
        for field in msgspec.structs.fields(struct)
    }


@pytest.mark.parametrize(
    ("union", "messages"),
    [
        (NodeToScheduler, NODE_TO_SCHEDULER),
        (SchedulerToNode, SCHEDULER_TO_NODE),
        (ClientToScheduler, CLIENT_TO_SCHEDULER),
        (SchedulerToClient, SCHEDULER_TO_CLIENT),
    ],
)
def test_every_direction_has_the_messages_and_fields_that_were_promised(
    union: object, messages: dict[str, str]
) -> None:
    found = {struct.__struct_config__.tag: promised(struct) for struct in get_args(union)}
    assert found == {name: set(fields.split()) for name, fields in messages.items()}


@pytest.mark.parametrize(("part", "fields"), PARTS.items())
def test_every_part_has_the_fields_that_were_promised(
    part: type[msgspec.Struct], fields: str
) -> None:
    assert promised(part) == set(fields.split())


def test_the_pipeline_of_a_job_and_the_languages_of_a_node_are_always_written_in_full() -> None:
    default = default_pipeline(audio=False, src="en", tgt="es", semantic=False)
    assert msgspec.to_builtins(default) == {
        "use_asr": False,
        "use_semantic": False,
        "use_nmt": True,
        "use_tts": False,
        "use_tone": False,
    }
    assert msgspec.to_builtins(Languages()).keys() == {
        "asr_langs",
        "semantic_langs",
        "nmt_langs",
        "tts_langs",
    }


def test_of_a_pipeline_that_a_client_asks_for_only_what_it_chose_is_written() -> None:
    assert msgspec.to_builtins(Pipeline(use_tts=False)) == {"use_tts": False}


def test_the_type_on_the_wire_follows_from_the_name_of_the_class() -> None:
    assert wire_type("NodeRegisterAck") == "node_register_ack"
    assert wire_type("Error") == Error.__struct_config__.tag == "error"


def test_a_message_cannot_be_changed() -> None:
    init = SessionInit(src_lang="en", tgt_lang="es")
    with pytest.raises(AttributeError):
        init.src_lang = "zh"  # type: ignore[misc]


def test_a_session_names_its_targets_in_one_of_three_ways() -> None:
    assert SessionInit(tgt_lang="EN").targets == ("EN",)
    assert SessionInit(tgt_langs=("en", "es")).targets == ("en", "es")
    two_ways = '{"mode":"two_way_auto","lang_a":"en","lang_b":"zh","type":"session_init"}'
    assert msgspec.json.decode(two_ways, type=SessionInit).targets == ()
