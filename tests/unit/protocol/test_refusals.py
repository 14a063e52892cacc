from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz_frames import frames, outcome

from dragoman.errors import InvalidMessage
from dragoman.live.protocol import (
    FROM_CLIENT,
    FROM_NODE,
    TO_CLIENT,
    TO_NODE,
    Decoder,
    JobRequest,
    Pipeline,
    SessionInit,
    SubProtocol,
    decode_body,
)

JSON, MSGPACK = SubProtocol.JSON, SubProtocol.MSGPACK
EVERY_DECODER: tuple[Decoder[Any], ...] = (FROM_NODE, TO_NODE, FROM_CLIENT, TO_CLIENT)


def refusal(decoder: Decoder[Any], frame: bytes | str, sub: SubProtocol = JSON) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        decoder.decode(frame, sub)
    return caught.value


def with_field(type_name: str, name: bytes, value: bytes) -> bytes:
    """A MessagePack frame with one field whose value is given byte by byte."""
    pack = msgspec.msgpack.encode
    return b"\x82" + pack("type") + pack(type_name) + pack(name.decode()) + value


# --- what a refusal says ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame", ["", "{", "[]", "null", "42", '"node_drain"', '{"type":"node_drain"}}', "\ud800"]
)
def test_what_is_not_one_object_is_unparsable(frame: str) -> None:
    assert refusal(FROM_NODE, frame).details == {"problem": "unparsable"}


def test_an_unknown_stage_is_ignored_in_a_message_and_refused_in_a_request() -> None:
    init = FROM_CLIENT.decode('{"type":"session_init","pipeline":{"use_ttts":true}}', JSON)
    assert init == SessionInit(pipeline=Pipeline())
    body = b'{"src_lang":"en","tgt_lang":"es","text":"hi","pipeline":{"use_ttts":true}}'
    with pytest.raises(
        InvalidMessage, match=r"`pipeline\.use_ttts`.*`use_tts`.*use_asr, "
    ) as found:
        decode_body(body, JobRequest)
    assert found.value.details["field"] == "pipeline.use_ttts"


def test_half_of_a_surrogate_pair_is_called_that() -> None:
    error = refusal(FROM_CLIENT, r'{"type":"utterance","utterance_index":0,"text":"\ud83d"}')
    assert r"`\ud83d` is half of a surrogate pair" in error.message
    with pytest.raises(InvalidMessage, match="is half of a surrogate pair"):
        decode_body(rb'{"src_lang":"en","tgt_lang":"es","text":"\ud83d"}', JobRequest)


def test_a_frame_that_breaks_off_is_unparsable_even_after_a_bad_field() -> None:
    error = refusal(FROM_CLIENT, '{"type":"audio_chunk","seq":"x"')
    assert error.details["problem"] == "unparsable"


def test_a_text_frame_on_a_binary_sub_protocol_says_what_was_expected() -> None:
    error = refusal(FROM_NODE, '{"type":"node_drain"}', MSGPACK)
    assert error.details["problem"] == "unparsable"
    assert "uses binary frames" in error.message


def test_an_unknown_type_is_named_together_with_the_known_ones() -> None:
    error = refusal(FROM_CLIENT, '{"type":"audio_chunks","seq":0}')
    assert error.details == {"problem": "unknown_type", "type": "audio_chunks"}
    assert "`audio_chunks`" in error.message
    assert "audio_chunk, utterance" in error.message


def test_a_message_for_another_direction_is_of_unknown_type() -> None:
    assert refusal(FROM_CLIENT, '{"type":"node_drain"}').details["problem"] == "unknown_type"


@pytest.mark.parametrize("frame", ["{}", '{"type":null}', '{"type":7}', '{"seq":0}'])
def test_a_message_without_a_type_is_told_so(frame: str) -> None:
    error = refusal(FROM_CLIENT, frame)
    assert error.details == {"problem": "unknown_type"}
    assert "has no `type`" in error.message


@pytest.mark.parametrize(
    ("frame", "field", "says"),
    [
        ('{"type":"audio_chunk","is_final":true}', "seq", "it is missing"),
        ('{"type":"audio_chunk","seq":-1,"is_final":true}', "seq", ">= 0"),
        ('{"type":"audio_chunk","seq":null,"is_final":true}', "seq", "got `null`"),
        ('{"type":"audio_chunk","seq":9007199254740992,"is_final":true}', "seq", "<="),
        ('{"type":"audio_chunk","seq":0,"is_final":true,"payload":"@"}', "payload", "base64"),
        ('{"type":"session_init","tgt_lang":"auto"}', "tgt_lang", "for src_lang only"),
        ('{"type":"session_init","tgt_lang":"zh_CN"}', "tgt_lang", "a language tag such as"),
        ('{"type":"session_init","tgt_lang":"en\\n"}', "tgt_lang", "a language tag such as"),
        ('{"type":"session_init","tgt_langs":["en",5]}', "tgt_langs[1]", "got `int`"),
        ('{"type":"session_init","mode":"both"}', "mode", "'both' is not one of one_way, two_way"),
        ('{"type":"session_init","tenant_id":"a b"}', "tenant_id", "without spaces"),
        (
            '{"type":"session_init","pipeline":{"use_asr":1}}',
            "pipeline.use_asr",
            "Expected `bool | null`",
        ),
    ],
)
def test_a_bad_field_is_named_with_what_was_expected(frame: str, field: str, says: str) -> None:
    error = refusal(FROM_CLIENT, frame)
    assert error.details["problem"] == "bad_field"
    assert error.details["field"] == field
    assert error.details["type"] in error.message
    assert says in error.message


@pytest.mark.parametrize("percent", ["100.1", "-0.1", '"50"'])
def test_a_heartbeat_with_an_impossible_percentage_can_be_counted_as_a_bad_one(
    percent: str,
) -> None:
    usage = f'{{"cpu_percent":{percent},"mem_percent":5}}'
    error = refusal(FROM_NODE, f'{{"type":"node_heartbeat","running":[],"resource_usage":{usage}}}')
    assert error.details == {
        "problem": "bad_field",
        "type": "node_heartbeat",
        "field": "resource_usage.cpu_percent",
    }


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_no_wrong_word_can_confuse_the_refusal(word: str) -> None:
    frame = msgspec.json.encode({"type": "session_init", "mode": word + " - at `$.x`"}).decode()
    error = refusal(FROM_CLIENT, frame)
    assert error.details["field"] == "mode"
    assert "one_way, two_way_auto" in error.message
    assert len(error.message) < 300


def test_a_bad_request_body_is_refused_like_a_bad_message() -> None:
    with pytest.raises(InvalidMessage, match="`tgt_lang` of the request does not fit: it is miss"):
        decode_body(b'{"src_lang":"en","text":null}', JobRequest)
    for body in (b"", b"[]", b"\xff", b'{"src_lang":"\xff"}', b"[" * 100_000):
        with pytest.raises(InvalidMessage):
            decode_body(body, JobRequest)


# --- hostile input ------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("field", ["extra", "unknown"])
def test_a_deep_nest_is_refused(opening: str, field: str) -> None:
    frame = f'{{"type":"job_result","{field}":' + opening * 100_000
    assert refusal(FROM_NODE, frame).details["problem"] == "unparsable"


@pytest.mark.parametrize("field", [b"extra", b"unknown"])
def test_a_deep_nest_in_msgpack_is_refused(field: bytes) -> None:
    frame = with_field("job_result", field, b"\x91" * 100_000)
    assert refusal(FROM_NODE, frame, MSGPACK).details["problem"] == "unparsable"


def test_a_free_form_value_has_at_most_eight_levels() -> None:
    result = '{{"type":"job_result","job_id":"j","attempt_id":"a","success":true,"extra":{}}}'
    FROM_NODE.decode(result.format('{"a":' * 8 + "1" + "}" * 8), JSON)
    error = refusal(FROM_NODE, result.format('{"a":' * 9 + "1" + "}" * 9))
    assert error.details["problem"] == "bad_field"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"\xcb\x7f\xf8" + b"\0" * 6, id="NaN"),
        pytest.param(b"\xcb\x7f\xf0" + b"\0" * 6, id="infinity"),
        pytest.param(b"\xcf" + b"\xff" * 8, id="over 63 bits"),
        pytest.param(b"\xc4\x01a", id="bytes"),
        pytest.param(b"\xc7\x01\x05a", id="extension"),
        pytest.param(b"\xd6\xff\0\0\0\0", id="timestamp"),
        pytest.param(b"\x81\x01\x01", id="number as a key"),
    ],
)
def test_a_free_form_value_holds_only_what_both_sub_protocols_can_carry(value: bytes) -> None:
    error = b"\x83\xa4code\xa1X\xa7message\xa1m\xa7details\x81\xa1k" + value
    frame = (
        b"\x85\xa4type\xaajob_result\xa6job_id\xa1j\xaaattempt_id\xa1a\xa7success\xc2\xa5error"
        + error
    )
    assert refusal(FROM_NODE, frame, MSGPACK).details["problem"] == "bad_field"


@pytest.mark.parametrize(
    "value", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
)
@pytest.mark.parametrize("field", [b"services", b"running", b"unknown"])
def test_a_length_that_is_a_lie_is_refused_without_reserving_memory(
    field: bytes, value: bytes
) -> None:
    frame = with_field("node_register", field, value)
    assert refusal(FROM_NODE, frame, MSGPACK).details["problem"] in ("unparsable", "bad_field")


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param('{"type":"node_drain","reason":"\ud800"}', id="lone surrogate"),
        pytest.param('{"type":"node_drain","reason":"\\ud800"}', id="escaped lone surrogate"),
        pytest.param(b'{"type":"node_drain","reason":"\xff"}', id="not UTF-8"),
        pytest.param('{"type":"node_drain","reason":NaN}', id="NaN"),
        pytest.param('{"type":"node_drain","reason":' + "9" * 100_000 + "}", id="huge integer"),
    ],
)
def test_what_json_cannot_say_is_refused(frame: bytes | str) -> None:
    refusal(FROM_NODE, frame)


@given(st.binary(max_size=200))
def test_random_bytes_are_only_ever_refused(data: bytes) -> None:
    for decoder in EVERY_DECODER:
        for sub in SubProtocol:
            assert outcome(decoder, data, sub) in ("unparsable", "unknown_type")


@given(st.text())
def test_random_text_is_only_ever_refused(text: str) -> None:
    for decoder in EVERY_DECODER:
        assert outcome(decoder, text, JSON) in ("unparsable", "unknown_type")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_hundred_thousand_hostile_frames_meet_only_typed_refusals(seed: int) -> None:
    seen = set()
    for number, (sub, frame) in enumerate(frames(seed, 50_000)):
        decoder = FROM_NODE if number % 2 else FROM_CLIENT
        try:
            seen.add(outcome(decoder, frame, sub))
        except Exception as error:
            pytest.fail(f"seed {seed}, frame {number}, {sub.value}: {error!r}\n{frame!r}")
    assert seen == {"accepted", "unparsable", "unknown_type", "bad_field"}


def test_the_same_seed_makes_the_same_frames() -> None:
    assert list(frames(7, 500)) == list(frames(7, 500))
    assert list(frames(7, 500)) != list(frames(8, 500))
