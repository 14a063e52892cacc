"""A field of the wire is a field of the SDK, without a second list of names."""

from __future__ import annotations

import msgspec

from dragoman.ids import AttemptId, JobId, SessionId
from dragoman.live.protocol import (
    AudioFormat,
    Cut,
    JobAssign,
    JobClass,
    JobResult,
    Mode,
    Pipeline,
    SubProtocol,
    encode,
)
from dragoman.sdk import Answer
from dragoman.sdk.node.job import job_from

ASSIGN = JobAssign(
    job_id=JobId("j"),
    attempt_id=AttemptId("a"),
    trace_id="t",
    job_class=JobClass.BATCH,
    src_lang="en",
    tgt_lang="es",
    mode=Mode.TWO_WAY_AUTO,
    pipeline=Pipeline(use_asr=True),
    features=("tone",),
    padding_ms=5,
    cut=Cut.PAUSE,
    deadline_ms=7,
    lang_a="en",
    lang_b="es",
    auto_langs=("en", "es"),
    audio=b"x",
    audio_format=AudioFormat.OPUS,
    sample_rate=8_000,
    text="words",
    session_id=SessionId("s"),
    utterance_index=3,
    traceparent="00-1-2-01",
)


class Silent:
    """A channel that no one listens to."""

    cancelled = False

    def partial(self, text: str, is_final: bool) -> None: ...


def test_a_function_is_given_every_field_that_the_node_was_told() -> None:
    told = msgspec.structs.asdict(ASSIGN)
    given = msgspec.structs.asdict(job_from(ASSIGN, Silent()))
    assert {name: given[name] for name in told} == told


def test_an_answer_has_every_field_of_a_result_that_is_a_function_s_to_fill() -> None:
    of_the_node = {"job_id", "attempt_id", "success", "error"}
    assert {*Answer.__struct_fields__} == {*JobResult.__struct_fields__} - of_the_node


def test_what_is_always_sent_is_sent_also_with_its_usual_value() -> None:
    plain = msgspec.structs.replace(ASSIGN, mode=Mode.ONE_WAY, features=(), padding_ms=0)
    sent = msgspec.json.decode(str(encode(plain, SubProtocol.JSON)))
    assert sent["type"] == "job_assign"
    assert (sent["mode"], sent["features"], sent["padding_ms"]) == ("one_way", [], 0)
    bare = msgspec.structs.replace(plain, text=None, traceparent=None)
    assert (
        not {"text", "traceparent"}
        & msgspec.json.decode(str(encode(bare, SubProtocol.JSON))).keys()
    )
