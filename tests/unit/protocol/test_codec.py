from __future__ import annotations

import base64
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.protocol.strategies import structs

from dragoman.errors import InvalidMessage
from dragoman.ids import AttemptId, JobId
from dragoman.live.protocol import (
    FROM_CLIENT,
    FROM_NODE,
    TO_CLIENT,
    TO_NODE,
    AudioChunk,
    ClientToScheduler,
    Decoder,
    JobAck,
    JobAssign,
    JobRequest,
    JobResult,
    Message,
    NodeToScheduler,
    SchedulerToClient,
    SchedulerToNode,
    SessionInit,
    SubProtocol,
    Utterance,
    decode_body,
    encode,
)

DIRECTIONS: tuple[tuple[Decoder[Any], Any], ...] = (
    (FROM_NODE, NodeToScheduler),
    (TO_NODE, SchedulerToNode),
    (FROM_CLIENT, ClientToScheduler),
    (TO_CLIENT, SchedulerToClient),
)
EVERY_MESSAGE = [
    pytest.param(decoder, struct, id=f"{index}-{struct.__name__}")
    for index, (decoder, union) in enumerate(DIRECTIONS)
    for struct in get_args(union)
]
every_message = pytest.mark.parametrize(("decoder", "struct"), EVERY_MESSAGE)
both_sub_protocols = pytest.mark.parametrize("sub", SubProtocol)
few_examples = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def written(fields: dict[str, Any], sub: SubProtocol) -> bytes | str:
    """A frame with exactly these fields, as a peer without this library would write it."""
    if sub.binary:
        return msgspec.msgpack.encode(fields)
    return msgspec.json.encode(fields).decode()


def fields_on_the_wire(message: Message, sub: SubProtocol) -> dict[str, Any]:
    frame = encode(message, sub)
    if isinstance(frame, bytes):
        return msgspec.msgpack.decode(frame, type=dict[str, Any])
    return msgspec.json.decode(frame, type=dict[str, Any])


def required_only(struct: type[Message], data: st.DataObject) -> Message:
    """A message whose optional fields all have their defaults."""
    full = data.draw(structs(struct))
    required = {
        field.name: getattr(full, field.name)
        for field in msgspec.structs.fields(struct)
        if field.required
    }
    return struct(**required)


@both_sub_protocols
@every_message
@few_examples
@given(data=st.data())
def test_what_is_written_is_read_back_the_same(
    decoder: Decoder[Any], struct: type[Message], sub: SubProtocol, data: st.DataObject
) -> None:
    message = data.draw(structs(struct))
    assert decoder.decode(encode(message, sub), sub) == message


@every_message
@few_examples
@given(data=st.data())
def test_a_message_passes_from_one_sub_protocol_to_the_other_and_back(
    decoder: Decoder[Any], struct: type[Message], data: st.DataObject
) -> None:
    message = data.draw(structs(struct))
    for sub in (SubProtocol.JSON, SubProtocol.MSGPACK, SubProtocol.JSON):
        message = decoder.decode(encode(message, sub), sub)
    assert decoder.decode(encode(message, SubProtocol.MSGPACK), SubProtocol.MSGPACK) == message


@both_sub_protocols
@every_message
@settings(few_examples, max_examples=5)
@given(data=st.data())
def test_a_field_that_is_left_out_on_write_has_its_default_on_read(
    decoder: Decoder[Any], struct: type[Message], sub: SubProtocol, data: st.DataObject
) -> None:
    message = required_only(struct, data)
    required = {f.encode_name for f in msgspec.structs.fields(struct) if f.required}
    assert fields_on_the_wire(message, sub).keys() == required | {"type"}
    assert decoder.decode(encode(message, sub), sub) == message


@both_sub_protocols
@every_message
@settings(few_examples, max_examples=5)
@given(data=st.data())
def test_an_optional_field_that_is_null_is_as_good_as_absent(
    decoder: Decoder[Any], struct: type[Message], sub: SubProtocol, data: st.DataObject
) -> None:
    message = required_only(struct, data)
    nulls = {f.encode_name: None for f in msgspec.structs.fields(struct) if not f.required}
    frame = written({**fields_on_the_wire(message, sub), **nulls}, sub)
    assert decoder.decode(frame, sub) == message


@both_sub_protocols
@every_message
@settings(few_examples, max_examples=5)
@given(data=st.data())
def test_unknown_fields_are_ignored(
    decoder: Decoder[Any], struct: type[Message], sub: SubProtocol, data: st.DataObject
) -> None:
    message = data.draw(structs(struct))
    later = {"from_a_later_version": {"deep": [1, None, "x"]}}
    frame = written({**fields_on_the_wire(message, sub), **later}, sub)
    assert decoder.decode(frame, sub) == message


@both_sub_protocols
def test_nulls_inside_parts_and_lists_are_as_good_as_absent(sub: SubProtocol) -> None:
    part = {"job_id": "j", "attempt_id": "a"}
    error = {"code": "X", "message": "m", "retryable": None, "details": None}
    result = {"type": "job_result", **part, "success": False, "error": error}
    message = FROM_NODE.decode(written(result, sub), sub)
    assert isinstance(message, JobResult)
    assert message.error is not None
    assert message.error.retryable is True


@both_sub_protocols
def test_a_null_inside_a_free_form_value_stays(sub: SubProtocol) -> None:
    result = {"type": "job_result", "job_id": "j", "attempt_id": "a", "success": True}
    frame = written({**result, "extra": {"speaker": None}, "unknown": None}, sub)
    message = FROM_NODE.decode(frame, sub)
    assert isinstance(message, JobResult)
    assert message.extra == {"speaker": None}


def test_bytes_are_base64_in_json_and_raw_in_msgpack() -> None:
    chunk = AudioChunk(seq=0, is_final=True, payload=b"\x00\xff\x10")
    in_json = fields_on_the_wire(chunk, SubProtocol.JSON)
    assert base64.b64decode(in_json["payload"]) == chunk.payload
    assert fields_on_the_wire(chunk, SubProtocol.MSGPACK)["payload"] == chunk.payload


def test_json_frames_are_text_and_msgpack_frames_are_binary() -> None:
    ack = JobAck(job_id=JobId("j"), attempt_id=AttemptId("a"))
    assert isinstance(encode(ack, SubProtocol.JSON), str)
    assert isinstance(encode(ack, SubProtocol.MSGPACK), bytes)
    assert [sub.binary for sub in SubProtocol] == [False, True]


def test_the_class_of_a_job_is_called_class_on_the_wire() -> None:
    assert "class" in JobAssign.__struct_encode_fields__
    assert "class" in JobRequest.__struct_encode_fields__


def test_text_that_is_not_unicode_is_refused_when_it_is_written() -> None:
    for sub in SubProtocol:
        with pytest.raises(InvalidMessage, match="utterance holds text that is not valid Unicode"):
            encode(Utterance(utterance_index=0, text="\ud800"), sub)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([], SubProtocol.JSON),
        (["dragoman.json.v1"], SubProtocol.JSON),
        (["dragoman.msgpack.v1", "dragoman.json.v1"], SubProtocol.MSGPACK),
        (["graphql-ws", "dragoman.msgpack.v1"], SubProtocol.MSGPACK),
        (["graphql-ws"], None),
    ],
)
def test_the_first_known_sub_protocol_that_is_offered_is_chosen(
    offered: list[str], chosen: SubProtocol | None
) -> None:
    assert SubProtocol.choose(offered) is chosen


def test_languages_stay_as_they_were_written() -> None:
    frame = '{"type":"session_init","src_lang":"ZH-Hant","tgt_langs":["EN","pt-BR"]}'
    init = FROM_CLIENT.decode(frame, SubProtocol.JSON)
    assert isinstance(init, SessionInit)
    assert (init.src_lang, init.targets) == ("ZH-Hant", ("EN", "pt-BR"))


def test_auto_is_no_tag_and_has_one_spelling() -> None:
    frame = '{"type":"session_init","src_lang":"AUTO","auto_langs":["EN"],"tgt_lang":"es"}'
    init = FROM_CLIENT.decode(frame, SubProtocol.JSON)
    assert isinstance(init, SessionInit)
    assert init.src_lang == "auto"


def test_a_request_body_may_have_nulls() -> None:
    body = b'{"src_lang":"EN","tgt_lang":"es","text":"hi","class":null,"features":null}'
    assert decode_body(body, JobRequest) == JobRequest(src_lang="EN", tgt_lang="es", text="hi")


def test_an_unknown_field_of_a_request_body_is_refused_with_those_there_are() -> None:
    body = b'{"src_lang":"en","tgt_lang":"es","text":"hi","txt":null}'
    with pytest.raises(
        InvalidMessage, match=r"`txt` of the request .*did you mean `text`\?\); there are src_lang"
    ) as found:
        decode_body(body, JobRequest)
    assert found.value.details["field"] == "txt"
