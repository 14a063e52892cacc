"""Spans of a real server, as they reach a tracing system over HTTP."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
from tests.integration.live_api.manual_node import ManualNode
from tests.integration.quiet_logs.talker import SECRETS, Talker
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
)
from tests.integration.tracing.collector import Collector

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
JOB = {"src_lang": "en", "tgt_lang": "es", "text": "hello", "wait_ms": 10_000}


def tracing_to(url: str) -> dict[str, str]:
    return environment(DRAGOMAN_TRACING__ENABLED="true", DRAGOMAN_TRACING__ENDPOINT=url)


def test_the_spans_of_a_demo_reach_a_collector(tmp_path: Path) -> None:
    options = ("--nodes", "2", "--real-nodes", "0", "--traffic", "0", "--seconds", "4")
    with Collector() as collector:
        env = tracing_to(collector.url)
        with ServerProcess(
            tmp_path / "data", *options, command=(DRAGOMAN, "demo"), env=env
        ) as demo:
            header = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
            answer = httpx.post(
                f"{demo.url}/api/v1/jobs", json=JOB, headers=header, timeout=PATIENCE_SECONDS
            )
            assert answer.status_code == 201
            Talker(demo.url).speak("en", "es")
            assert demo.wait() == 0, "the last spans leave before the server does"

    assert collector.paths == {"/v1/traces"}
    assert collector.resource["service.name"] == "dragoman"
    (utterance,) = collector.named("utterance")
    asked, spoken = sorted(
        collector.named("job"), key=lambda span: span.parent_span_id == utterance.span_id
    )
    assert (asked.trace_id.hex(), asked.parent_span_id.hex()) == (TRACE, CALLER)
    assert (spoken.trace_id, spoken.parent_span_id) == (utterance.trace_id, utterance.span_id)
    assert utterance.parent_span_id == b""
    assert [event.name for event in utterance.events] == ["received", "cut", "delivered"]
    names = [event.name for event in spoken.events]
    assert names[:4] == ["received", "claimed", "reserved", "dispatched"]
    assert names[-1] == "finished"
    assert not any(secret in str(collector.spans) for secret in SECRETS)


def test_a_collector_that_is_not_there_costs_no_answer(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with ServerProcess(tmp_path / "data", env=tracing_to(url)) as server:
            with ManualNode(server, ("en", "es")) as node:
                httpx.post(f"{server.url}/api/v1/jobs", json={**JOB, "wait_ms": 0})
                job = node.take()
                assert len(bytes.fromhex(job["trace_id"])) == 16
                node.succeed(job)
            server.signal()
            assert server.wait() == 0
            assert "hello" not in server.all_output()
