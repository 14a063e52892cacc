"""Jobs over HTTP against a real server: every status, and what a job looks like on its way."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any

import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, attempt_of, problem
from tests.integration.serve.server_process import ServerProcess, eventually

Pair = tuple[str, str]

SPEECH = {"text": None, "audio": b64encode(b"\0\1" * 100).decode()}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_a_job_is_answered_as_soon_as_it_is_dispatched(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        answer = caller.ask(pair, request_id="dispatched")

        assert answer.status_code == 201
        view = answer.json()
        assert (view["state"], view["class"]) == ("DISPATCHED", "live")
        assert (view["src_lang"], view["tgt_lang"], view["request_id"]) == (*pair, "dispatched")
        assert view["node_id"] == node.node_id
        assert (view["outcome"], view["error"], view["result"]) == (None, None, None)
        (attempt,) = view["attempts"]
        assert (attempt["attempt"], attempt["node_id"]) == (1, node.node_id)
        assert attempt["state"] == "DISPATCHED"
        assert MOMENT.fullmatch(attempt["at"]["dispatched"])
        assert attempt["at"]["accepted"] is None


def test_a_job_shows_the_state_of_its_attempt_until_its_end(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        job_id = caller.ask(pair).json()["job_id"]
        job = node.take()
        node.accept(job)
        eventually(lambda: caller.job(job_id)["state"] == "ACCEPTED", "it is accepted")
        node.start(job)
        eventually(lambda: caller.job(job_id)["state"] == "RUNNING", "it runs")
        node.succeed(job, text_translated="hola", quality_score=0.9, extra={"a": [1]})
        eventually(lambda: caller.job(job_id)["state"] == "FINISHED", "it is finished")

        view = caller.job(job_id)
        assert view["outcome"] == "success"
        assert view["result"]["text_translated"] == "hola"
        assert view["result"]["extra"] == {"a": [1]}
        (attempt,) = view["attempts"]
        assert (attempt["state"], attempt["outcome"]) == ("FINISHED", "success")
        steps = [attempt["at"][step] for step in ("dispatched", "accepted", "running", "finished")]
        assert all(MOMENT.fullmatch(step) for step in steps)
        assert steps == sorted(steps)


def test_a_node_is_told_all_it_needs(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    audio = b64encode(b"\0\1" * 100).decode()
    with ManualNode(server, pair) as node:
        caller.ask(pair, text=None, audio=audio, sample_rate=8000)
        job = node.take()

    assert (job["src_lang"], job["tgt_lang"], job["class"]) == (*pair, "live")
    assert (job["audio"], job["audio_format"], job["sample_rate"]) == (audio, "pcm16", 8000)
    assert job["pipeline"] == {
        "use_asr": True,
        "use_semantic": False,
        "use_nmt": True,
        "use_tts": True,
        "use_tone": False,
    }
    assert job["trace_id"]
    assert 0 < job["deadline_ms"] <= 60_000


@pytest.mark.parametrize(
    ("given", "pipeline", "used"),
    [
        ({}, {}, {"use_nmt"}),
        ({}, {"use_tts": True}, {"use_nmt", "use_tts"}),
        ({}, {"use_tts": None}, {"use_nmt"}),
        (SPEECH, {}, {"use_asr", "use_nmt", "use_tts"}),
        (SPEECH, {"use_tts": False}, {"use_asr", "use_nmt"}),
        (SPEECH, {"use_nmt": False, "use_tts": None}, {"use_asr", "use_tts"}),
    ],
)
def test_a_stage_that_a_pipeline_leaves_out_has_its_default(
    server: ServerProcess,
    caller: Caller,
    pair: Pair,
    given: dict[str, Any],
    pipeline: dict[str, Any],
    used: set[str],
) -> None:
    with ManualNode(server, pair) as node:
        caller.ask(pair, **given, pipeline=pipeline)
        told = node.take()["pipeline"]

    assert {stage for stage, wanted in told.items() if wanted} == used


def test_text_is_neither_heard_nor_translated_into_its_own_language(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        caller.ask((pair[0], pair[0].upper()))
        pipeline = node.take()["pipeline"]

    assert [stage for stage, used in pipeline.items() if used] == []


def test_a_caller_that_waits_gets_the_result(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        node.succeed(node.take(), text_translated="hola")
        answer = asking.result()

    assert answer.status_code == 201
    assert answer.json()["state"] == "FINISHED"
    assert answer.json()["result"]["text_translated"] == "hola"


def test_a_wait_that_is_too_short_is_answered_202(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        answer = caller.ask(pair, wait_ms=50)
        node.succeed(node.take())

    assert answer.status_code == 202
    assert answer.json()["state"] == "DISPATCHED"


def test_the_same_request_again_gets_the_same_job(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        first = caller.ask(pair, request_id="again")
        while_it_runs = caller.ask(pair, request_id="again")
        node.succeed(node.take(), text_translated="hola")
        after = caller.ask(pair, request_id="again", wait_ms=60_000)

    assert [first.status_code, while_it_runs.status_code, after.status_code] == [201, 200, 200]
    assert {answer.json()["job_id"] for answer in (first, while_it_runs, after)} == {
        first.json()["job_id"]
    }
    assert after.json()["result"]["text_translated"] == "hola"


def test_the_same_request_with_another_body_is_a_conflict(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair):
        first = caller.ask(pair, request_id="conflict")
        second = caller.ask(pair, request_id="conflict", text="something else")

    assert problem(second) == (409, "REQUEST_CONFLICT")
    assert second.json()["error"]["details"]["job_id"] == first.json()["job_id"]


def test_a_request_without_an_id_gets_one(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=2):
        ids = {caller.ask(pair).json()["request_id"] for _ in range(2)}

    assert len(ids) == 2
    assert all(ids)


def test_a_job_that_failed_for_good_is_an_answer_not_an_error(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        node.fail(node.take(), "BAD_AUDIO", retryable=False)
        answer = asking.result()

    assert answer.status_code == 201
    assert (answer.json()["outcome"], answer.json()["error"]["code"]) == ("failed", "BAD_AUDIO")


def test_a_job_goes_to_another_node_when_one_fails_it(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as bad:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        job = bad.take()
        with ManualNode(server, pair) as good:
            bad.fail(job, "INTERNAL_ERROR")
            good.succeed(good.take(), text_translated="hola")
            view = asking.result().json()

    assert view["outcome"] == "success"
    assert [attempt["node_id"] for attempt in view["attempts"]] == [bad.node_id, good.node_id]
    assert view["attempts"][0]["error"]["code"] == "INTERNAL_ERROR"


def test_a_job_whose_attempts_all_fail_says_so(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000)
        for _ in range(3):
            node.fail(node.take(), "INTERNAL_ERROR")
        view = asking.result().json()

    assert view["error"]["code"] == "ATTEMPTS_EXHAUSTED"
    assert view["error"]["details"] == {"last": "INTERNAL_ERROR"}
    assert len(view["attempts"]) == 3


def test_batch_work_waits_until_there_is_a_node(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=1) as node:
        live = caller.ask(pair).json()
        answer = caller.ask(pair, **{"class": "batch", "wait_ms": 60_000})
        assert (answer.status_code, answer.json()["state"]) == (201, "CREATED")

        with ManualNode(server, pair, slots=4) as another:
            job = another.take()
            assert (job["job_id"], job["class"]) == (answer.json()["job_id"], "batch")
        node.succeed(node.take())
        eventually(lambda: caller.job(live["job_id"])["outcome"] == "success", "the other ends")


def test_live_work_takes_the_slot_of_batch_work_and_is_answered_once_it_has_it(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=4) as node:
        batch = [caller.ask(pair, **{"class": "batch"}).json()["job_id"] for _ in range(3)]
        jobs = [node.take() for _ in batch]
        assert caller.ask(pair).status_code == 201
        node.take()
        asking = caller.begin_to_ask(pair, text="urgent")
        cancelled = node.wait_for("job_cancel", reason="PREEMPTED")
        assert not asking.done()
        node.fail(next(job for job in jobs if attempt_of(job).items() <= cancelled.items()), "X")
        answer = asking.result()

        assert (answer.status_code, answer.json()["state"]) == (201, "DISPATCHED")
        assert node.take()["text"] == "urgent"
        assert caller.job(cancelled["job_id"])["state"] == "CREATED"


def test_a_running_job_is_cancelled_and_keeps_its_slot_until_the_node_lets_go(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        job_id = caller.ask(pair).json()["job_id"]
        job = node.take()
        node.accept(job)
        cancelled = caller.delete(f"/jobs/{job_id}")

        assert cancelled.status_code == 200
        assert (cancelled.json()["state"], cancelled.json()["outcome"]) == ("FINISHED", "cancelled")
        assert cancelled.json()["attempts"][0]["state"] == "CANCELLING"
        assert node.wait_for("job_cancel")["attempt_id"] == job["attempt_id"]
        assert problem(caller.ask(pair)) == (429, "NO_CAPACITY")

        node.fail(job, "JOB_CANCELLED")
        eventually(lambda: caller.ask(pair).status_code == 201, "the slot is free again")
        assert problem(caller.delete(f"/jobs/{job_id}")) == (409, "JOB_ENDED")


def test_a_cancelled_job_keeps_the_attempt_that_it_had(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        job_id = caller.ask(pair).json()["job_id"]
        job = node.take()
        caller.delete(f"/jobs/{job_id}")
        node.fail(job, "JOB_CANCELLED")

        found = caller.job(job_id)
        assert (found["node_id"], found["outcome"]) == (node.node_id, "cancelled")
        [attempt] = found["attempts"]
        assert (attempt["attempt_id"], attempt["outcome"]) == (job["attempt_id"], "cancelled")


def test_a_job_that_failed_at_every_attempt_shows_each_with_its_cause(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        answer = caller.begin_to_ask(pair, wait_ms=60_000)
        taken = []
        for code in ("FIRST", "SECOND", "THIRD"):
            taken.append(node.take())
            node.fail(taken[-1], code)

        found = caller.job(answer.result().json()["job_id"])
        assert (found["error"]["code"], found["error"]["details"]["last"]) == (
            "ATTEMPTS_EXHAUSTED",
            "THIRD",
        )
        assert [attempt["attempt_id"] for attempt in found["attempts"]] == [
            job["attempt_id"] for job in taken
        ]
        assert [attempt["error"]["code"] for attempt in found["attempts"]] == [
            "FIRST",
            "SECOND",
            "THIRD",
        ]


def test_a_waiting_job_is_cancelled(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with ManualNode(server, pair):
        caller.ask(pair)
        job_id = caller.ask(pair, **{"class": "batch"}).json()["job_id"]

        assert caller.delete(f"/jobs/{job_id}").json()["outcome"] == "cancelled"


def test_the_list_is_the_tenants_own_newest_first_and_paged(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    tenant = f"tenant-{pair[0]}"
    with ManualNode(server, pair, slots=5):
        made = [caller.ask(pair, tenant_id=tenant).json()["job_id"] for _ in range(5)]
        caller.ask(pair, tenant_id="somebody-else")

    first = caller.get("/jobs", tenant_id=tenant, limit=3).json()
    rest = caller.get("/jobs", tenant_id=tenant, limit=3, cursor=first["next"]).json()

    listed = [job["job_id"] for job in first["items"] + rest["items"]]
    assert sorted(listed) == sorted(made)
    assert len(first["items"]) == 3
    assert rest["next"] is None
    assert problem(caller.get("/jobs", cursor="nonsense")) == (422, "INVALID_MESSAGE")


def test_a_job_can_be_explained(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with (
        ManualNode(server, pair) as node,
        ManualNode(server, pair) as other,
        ManualNode(server, (pair[0],)) as monolingual,
    ):
        job_id = caller.ask(pair).json()["job_id"]
        (attempt,) = caller.get(f"/jobs/{job_id}/explain").json()["attempts"]

    could = {one.node_id for one in (node, other)}
    assert attempt["chosen"] in could
    assert attempt["candidates"]["count"] == len(could)
    assert set(attempt["candidates"]["nodes"]) == could
    assert attempt["pool"] == ":".join(pair)
    assert attempt["snapshot_version"] > 0
    assert node.ack["cell"] in attempt["shards_tried"]
    assert monolingual.node_id in attempt["reasons"]["pair_unsupported"]["nodes"]


def test_a_job_in_line_is_explained_too(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with ManualNode(server, pair):
        caller.ask(pair)
        waiting = [
            caller.ask(pair, request_id=f"{pair[0]}-{number}", **{"class": "batch"}).json()
            for number in range(2)
        ]
        explained = [caller.get(f"/jobs/{job['job_id']}/explain") for job in waiting]

    assert [answer.status_code for answer in explained] == [200, 200]
    for answer in explained:
        line = answer.json()["waiting"]
        assert (line["pool"], line["in_line"]) == (":".join(pair), 2)


def test_what_is_not_there_is_not_found(caller: Caller) -> None:
    assert problem(caller.get("/jobs/j-0")) == (404, "NOT_FOUND")
    assert problem(caller.get("/jobs/j-0/explain")) == (404, "NOT_FOUND")
    assert problem(caller.delete("/jobs/j-0")) == (404, "NOT_FOUND")
    assert problem(caller.get("/nodes/nobody")) == (404, "NOT_FOUND")
    assert problem(caller.post("/nodes/nobody/drain")) == (404, "NOT_FOUND")
    assert problem(caller.post("/nodes/nobody/resume")) == (404, "NOT_FOUND")


def test_the_sound_of_a_result_is_left_out_of_an_answer_that_does_not_want_it(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        asking = caller.begin_to_ask(pair, wait_ms=60_000, request_id="quiet", result_audio="omit")
        node.succeed(node.take(), text_translated="hola", tts_audio="c291bmQ=", tts_format="wav")
        quiet = asking.result().json()
        assert quiet["result"]["tts_audio"] is None
        assert quiet["result"]["text_translated"] == "hola"
        assert quiet["result"]["tts_format"] == "wav"

        # It is about this answer only: the job has its sound, and is the same job.
        again = caller.ask(pair, wait_ms=60_000, request_id="quiet")
        assert again.status_code == 200
        assert again.json()["job_id"] == quiet["job_id"]
        assert again.json()["result"]["tts_audio"] == "c291bmQ="
        path = f"/jobs/{quiet['job_id']}"
        assert caller.get(path).json()["result"]["tts_audio"] == "c291bmQ="
        assert caller.get(path, result_audio="omit").json()["result"]["tts_audio"] is None
        listed = caller.get("/jobs", result_audio="omit").json()["items"]
        assert not any((job["result"] or {}).get("tts_audio") for job in listed)


@pytest.mark.parametrize(
    ("field", "value"), [("result_audio", "loud"), ("results_audio", "omit"), ("wait", 1)]
)
def test_an_unknown_field_or_value_of_a_job_is_refused(
    caller: Caller, pair: Pair, field: str, value: object
) -> None:
    answer = caller.ask(pair, **{field: value})
    assert problem(answer) == (422, "INVALID_MESSAGE")
    assert field in answer.json()["error"]["message"]
