"""Results that do not fit the protocol: what fits is used, and no attempt waits for its timeout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.live_api.manual_node import Body, Caller, ManualNode, attempt_of
from tests.integration.serve.server_process import ServerProcess, environment
from websockets.exceptions import ConnectionClosed

Pair = tuple[str, str]

MAX_FRAME_BYTES = 1 << 20

both_sub_protocols = pytest.mark.parametrize("binary", [False, True], ids=["json", "msgpack"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with times so long that an attempt which waits for one fails the test."""
    env = environment(
        DRAGOMAN_LIMITS__MAX_FRAME_BYTES=str(MAX_FRAME_BYTES),
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__ACK_SECONDS="60",
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__RUN_SECONDS="300",
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__TOTAL_SECONDS="300",
    )
    folder = tmp_path_factory.mktemp("misfits") / "data"
    with ServerProcess(folder, "--log-level", "debug", env=env) as server:
        yield server


def fields_dropped(server: ServerProcess, field: str) -> float:
    name = f'scheduler_result_fields_dropped_total{{field="{field}"}} '
    lines = server.get("/metrics").text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_the_acknowledgement_tells_the_largest_frame(server: ServerProcess, pair: Pair) -> None:
    with ManualNode(server, pair) as node:
        assert node.ack["max_frame_bytes"] == MAX_FRAME_BYTES


@both_sub_protocols
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quality_score", "high"),
        ("quality_score", float("nan")),
        ("quality_score", float("inf")),
        ("text_asr", 7),
        ("timings", [1, 2]),
        ("timings.asr_ms", {"asr_ms": "fast", "nmt_ms": 3}),
        ("usage.tokens_in", {"tokens_in": -1, "tokens_out": 2}),
        ("tts_audio", "not base64!"),
        ("tts_format", 3),
        ("extra", "much"),
        ("src_lang_detected", "x" * 300),
        ("tgt_lang", "not a language"),
        ("error", {"code": 3}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_malformed_optional_field_is_left_out_and_the_rest_is_used(
    server: ServerProcess, caller: Caller, pair: Pair, binary: bool, field: str, value: Any
) -> None:
    before = fields_dropped(server, field)
    with ManualNode(server, pair, binary=binary) as node:
        asking = caller.begin_to_ask(pair, wait_ms=20_000)
        job = node.take()
        node.succeed(job, text_translated="hola", **{field.partition(".")[0]: value})
        answer = asking.result().json()

    assert answer["outcome"] == "success"
    assert answer["result"]["text_translated"] == "hola"
    assert len(answer["attempts"]) == 1
    assert fields_dropped(server, field) == before + 1
    if field == "timings.asr_ms":
        assert answer["result"]["timings"] == {"nmt_ms": 3}


def test_text_with_half_a_character_is_left_out(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=20_000)
        node.succeed(node.take(), text_asr="half \ud83d", text_translated="hola")
        assert asking.result().json()["result"]["text_translated"] == "hola"


@both_sub_protocols
def test_a_failure_with_malformed_details_keeps_its_code(
    server: ServerProcess, caller: Caller, pair: Pair, binary: bool
) -> None:
    with ManualNode(server, pair, binary=binary) as node:
        asking = caller.begin_to_ask(pair, wait_ms=20_000)
        error = {"code": "TOO_LOUD", "message": "no", "retryable": False, "details": "none"}
        node.say(type="job_result", success=False, error=error, **attempt_of(node.take()))
        answer = asking.result().json()
    assert answer["error"]["code"] == "TOO_LOUD"
    assert len(answer["attempts"]) == 1


@both_sub_protocols
@pytest.mark.parametrize(
    "fields",
    [{}, {"success": "yes"}, {"success": None}, {"success": True, "job_id": 7}],
    ids=["no success", "success is a text", "success is null", "job_id is a number"],
)
def test_a_result_that_cannot_be_read_ends_its_attempt_at_once_with_that_reason(
    server: ServerProcess, caller: Caller, pair: Pair, binary: bool, fields: Body
) -> None:
    with ManualNode(server, pair, binary=binary) as node:
        asking = caller.begin_to_ask(pair, wait_ms=20_000)
        for _ in range(3):
            job = node.take()
            node.say(**{"type": "job_result", **attempt_of(job), **fields})
            assert node.wait_for("error")["code"] == "INVALID_MESSAGE"
        answer = asking.result().json()

    assert answer["outcome"] == "failed"
    assert answer["error"]["details"]["last"] == "INVALID_MESSAGE"
    first = answer["attempts"][0]["error"]
    assert "cannot be read" in first["message"]
    assert ("job_id" if "job_id" in fields else "success") in first["message"]


@pytest.mark.parametrize("rest", [',"extra":' + '{"a":' * 5_000, ',"text_translated":"hal', ",}"])
def test_a_result_that_is_no_object_at_all_ends_its_attempt_at_once_too(
    server: ServerProcess, caller: Caller, pair: Pair, rest: str
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=20_000)
        for _ in range(3):
            result = {"type": "job_result", **attempt_of(node.take()), "success": True}
            node.socket.send(json.dumps(result)[:-1] + rest)
            assert node.wait_for("error")["code"] == "INVALID_MESSAGE"
        answer = asking.result().json()

    assert answer["error"]["details"]["last"] == "INVALID_MESSAGE"
    assert "cannot be read" in answer["attempts"][0]["error"]["message"]


def offers_large_result(node: ManualNode) -> int:
    """How the socket ends when the node answers its next job with too much."""
    try:
        node.succeed(node.take(), text_translated="x" * (MAX_FRAME_BYTES + 1))
        while True:
            node.hear()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else 0


@both_sub_protocols
def test_a_node_that_sends_a_frame_over_the_limit_again_and_again_loses_its_jobs(
    server: ServerProcess, caller: Caller, pair: Pair, binary: bool
) -> None:
    """A node that knows no limit comes back and sends the same result: three attempts, no more."""
    asking = None
    for _ in range(3):
        with ManualNode(server, pair, node_id=f"large-{pair[0]}", binary=binary) as node:
            asking = asking or caller.begin_to_ask(pair, wait_ms=20_000)
            assert offers_large_result(node) == 1009
    assert asking is not None
    with ManualNode(server, pair, node_id=f"large-{pair[0]}", binary=binary):
        answer = asking.result().json()  # if it were given the job again, it would have no answer
    assert answer["outcome"] == "failed"
    assert len(answer["attempts"]) == 3
