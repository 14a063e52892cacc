"""A refusal is an answer: its code, its reasons, and when to ask again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, job_body, problem
from tests.integration.serve.server_process import ServerProcess, eventually

Pair = tuple[str, str]


def test_a_pair_that_no_node_serves(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    for wait_ms in (None, 60_000):
        answer = caller.ask(pair, wait_ms=wait_ms)

        assert problem(answer) == (409, "PAIR_UNSUPPORTED")
        assert "Retry-After" not in answer.headers
        job_id = answer.json()["error"]["details"]["job_id"]
        assert caller.job(job_id)["outcome"] == "failed"
        assert caller.get(f"/jobs/{job_id}/explain").json()["attempts"][0]["chosen"] is None


def test_a_pair_that_only_a_relative_serves(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair):
        answer = caller.ask((f"{pair[0]}-x", pair[1]), wait_ms=60_000)

    details = answer.json()["error"]["details"]
    assert problem(answer) == (409, "PAIR_UNSUPPORTED")
    assert pair[0] in details["near"]
    assert (details["src_lang"], details["tgt_lang"]) == (f"{pair[0]}-x", pair[1])


def test_a_pair_that_no_node_translates_is_not_waited_for(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    languages = {
        "asr_langs": pair[:1],
        "semantic_langs": [],
        "nmt_langs": pair[:1],
        "tts_langs": pair[1:],
    }
    with ManualNode(server, (), by_stage=languages):
        answer = caller.post(
            "/jobs",
            {
                "src_lang": pair[0],
                "tgt_lang": pair[1],
                "audio": "AAAA",
                "wait_ms": 60_000,
            },
        )

    assert problem(answer) == (409, "PAIR_UNSUPPORTED")


def test_a_feature_that_no_node_offers(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    with ManualNode(server, pair, features=["emotion_detection"]):
        refused = caller.ask(pair, features=["speaker_identification"])
        offered = caller.ask(pair, features=["emotion_detection"])

    assert problem(refused) == (409, "UNSUPPORTED_FEATURE")
    assert refused.json()["error"]["details"]["reasons"]["feature_unsupported"] == 1
    assert offered.status_code == 201


def test_a_full_fleet_says_when_to_come_back(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair, slots=2) as node:
        for _ in range(2):
            assert caller.ask(pair).status_code == 201
        answer = caller.ask(pair, request_id="refused")

        assert problem(answer) == (429, "NO_CAPACITY")
        details = answer.json()["error"]["details"]
        assert details["reasons"]["no_free_slot"] == 1
        assert details["retry_after_ms"] > 0
        assert int(answer.headers["Retry-After"]) * 1000 >= details["retry_after_ms"]
        assert caller.job(details["job_id"])["error"]["code"] == "NO_CAPACITY"

        node.succeed(node.take())
        eventually(
            lambda: caller.ask(pair, request_id="refused").status_code == 201,
            "the refused request may be made again",
        )


def test_a_caller_that_waits_in_vain_is_refused_the_same_way(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair):
        caller.ask(pair)
        answer = caller.ask(pair, wait_ms=60_000)

    assert problem(answer) == (429, "NO_CAPACITY")
    details = answer.json()["error"]["details"]
    assert details["reasons"]["no_free_slot"] == 1
    assert details["job_id"]
    assert "Retry-After" in answer.headers


def test_a_caller_that_waits_gets_the_next_free_slot(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        caller.ask(pair)
        waiting = caller.begin_to_ask(pair, wait_ms=60_000, text="waiting")
        node.succeed(node.take())
        job = node.take()
        assert job["text"] == "waiting"
        node.succeed(job)

        assert waiting.result().json()["outcome"] == "success"


def test_a_node_that_is_too_busy_is_left_out(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, pair) as node:
        for _ in range(3):
            node.say(
                type="node_heartbeat",
                resource_usage={"cpu_percent": 99, "mem_percent": 1},
                running=[],
            )
        answer = caller.ask(pair)
        while answer.status_code == 201:
            node.succeed(node.take())
            answer = caller.ask(pair)

    assert problem(answer) == (503, "NO_AVAILABLE_NODE")
    assert answer.json()["error"]["details"]["reasons"]["resource_threshold"] == 1


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"text": None}, "audio"),
        ({"audio": "AAAA"}, "audio"),
        ({"src_lang": "auto"}, "src_lang"),
        ({"tgt_lang": "not a language"}, "tgt_lang"),
        ({"wait_ms": -1}, "wait_ms"),
        ({"class": "urgent"}, "class"),
        ({"features": ["telepathy"]}, "telepathy"),
        ({"pipeline": {"use_asr": True}}, "use_asr"),
        ({"pipeline": {"use_nmt": False}}, "uses no stage"),
        ({"pipeline": {"use_ttts": True}}, "`pipeline.use_ttts` of the request does not fit: it"),
        ({"pipeline": {"use_ttts": True}}, "did you mean `use_tts`?"),
        ({"pipelines": {}}, "did you mean `pipeline`?"),
        ({"xyzzy": 1}, "there are src_lang, tgt_lang, text"),
        ({"preferred_node_id": "n", "exclude_node_id": "n"}, "exclude_node_id"),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_by_name(
    caller: Caller, fields: dict[str, Any], named: str
) -> None:
    answer = caller.post("/jobs", job_body(("en", "es"), **fields))

    assert problem(answer) == (422, "INVALID_MESSAGE")
    assert named in answer.json()["error"]["message"]
