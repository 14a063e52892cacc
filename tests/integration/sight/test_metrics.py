"""Every metric that is promised is there, and moves when its thing happens."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair
from tests.integration.serve.server_process import (
    ServerProcess,
    environment,
    eventually,
)
from tests.integration.sight.scrape import Scrape, scrape
from tests.servers import RedisProcess
from tests.simulation.far_ledger import far
from tests.simulation.world import World, play
from websockets.sync.client import ClientConnection, connect

from dragoman.ids import NodeId
from dragoman.live.protocol import ModelNotAvailable

PROMISED = [
    "scheduler_stats_requests_total",
    "scheduler_stats_stale_total",
    "scheduler_stats_request_duration_seconds",
    "scheduler_stats_snapshot_age_seconds",
    "scheduler_model_na_received_total",
    "scheduler_model_na_rate_limited_total",
    "scheduler_model_na_marked_total",
    "scheduler_model_na_overflow_total",
    "scheduler_model_na_by_service_total",
    "scheduler_model_na_by_reason_total",
    "scheduler_model_na_rate_limited_by_node_total",
    "scheduler_model_na_marked_by_node_total",
    "scheduler_lock_wait_seconds",
    "scheduler_slow_lock_wait_total",
    "scheduler_slow_path_total",
    "scheduler_event_loop_lag_seconds",
    "scheduler_no_available_node_total",
    "scheduler_dispatch_exclude_total",
    "scheduler_web_task_finalized_total",
    "scheduler_audio_ignored_total",
    "scheduler_service_catalog_fail_count",
    "scheduler_service_catalog_last_success_age_seconds",
    "scheduler_jobs_catalog_down_total",
    "scheduler_jobs_total",
    "scheduler_dispatch_latency_seconds",
    "scheduler_job_duration_seconds",
    "scheduler_failover_total",
    "scheduler_slots",
    "scheduler_nodes",
    "scheduler_sessions",
    "scheduler_buffered_bytes",
    "scheduler_pending_jobs",
    "scheduler_results_dropped_total",
    "scheduler_inbox_pending",
    "scheduler_dlq_total",
    "scheduler_redis_full_total",
    "scheduler_redis_op_seconds",
]

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose catalog cannot be reached, and which believes one report of each node."""
    env = environment(
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="1",
        DRAGOMAN_SCHEDULER__STATS__SNAPSHOT_SECONDS="0.1",
        DRAGOMAN_SCHEDULER__MODEL_NOT_AVAILABLE__NODE_RATELIMIT_MAX="1",
        DRAGOMAN_SCHEDULER__SERVICE_CATALOG__URL="http://127.0.0.1:9/catalog",
        DRAGOMAN_SCHEDULER__SERVICE_CATALOG__TIMEOUT_SECONDS="0.5",
    )
    with ServerProcess(tmp_path_factory.mktemp("sight") / "data", env=env) as server:
        yield server


@pytest.fixture
def caller(server: ServerProcess) -> Iterator[Caller]:
    caller = Caller(server)
    yield caller
    caller.close()


@pytest.fixture
def pair() -> Pair:
    return new_pair()


class Moves:
    """Compares the metrics with what they were."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._before = scrape(server)

    def by(self, name: str, **labels: str) -> float:
        return scrape(self._server).total(name, **labels) - self._before.total(name, **labels)

    def expect(self, name: str, **labels: str) -> None:
        eventually(lambda: self.by(name, **labels) > 0, f"{name} {labels} grew")


def test_every_promised_name_is_exposed(server: ServerProcess) -> None:
    assert set(PROMISED) <= scrape(server).names


def test_a_job_moves_what_tells_of_jobs(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    moves = Moves(server)
    with ManualNode(server, pair) as node:
        answer = caller.begin_to_ask(pair, wait_ms=30_000)
        job = node.take()
        moves.expect("scheduler_slots", state="used")
        moves.expect("scheduler_buffered_bytes")
        node.succeed(job)
        assert answer.result().json()["outcome"] == "success"
        node.succeed(job)
        node.say(type="job_result", job_id=job["job_id"], attempt_id="a-unknown", success=True)
        moves.expect("scheduler_results_dropped_total", reason="duplicate")
        moves.expect("scheduler_results_dropped_total", reason="unknown_job")
    moves.expect("scheduler_jobs_total", **{"class": "live", "outcome": "success"})
    moves.expect("scheduler_jobs_catalog_down_total", outcome="success")
    moves.expect("scheduler_dispatch_latency_seconds")
    moves.expect("scheduler_job_duration_seconds")


def test_a_job_that_moves_on_counts_as_a_failover(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    moves = Moves(server)
    with ManualNode(server, pair) as node:
        answer = caller.begin_to_ask(pair, wait_ms=30_000)
        for _ in range(3):
            node.fail(node.take(), "GPU_ON_FIRE")
        assert answer.result().json()["error"]["code"] == "ATTEMPTS_EXHAUSTED"
    moves.expect("scheduler_failover_total", reason="gpu_on_fire")
    moves.expect("scheduler_jobs_total", outcome="failed")


def test_a_refusal_is_counted_with_its_reasons(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    moves = Moves(server)
    with ManualNode(server, pair) as node:
        assert caller.ask((pair[0], "xx")).status_code == 409
        moves.expect("scheduler_no_available_node_total", selector="models")
        moves.expect("scheduler_dispatch_exclude_total", reason="pair_unsupported")
        caller.ask(pair)
        assert caller.ask(pair).status_code == 429
        moves.expect("scheduler_no_available_node_total", selector="reserve", reason="no_free_slot")
        moves.expect("scheduler_dispatch_exclude_total", reason="no_free_slot")
        assert caller.ask(pair, features=["voice_cloning"]).status_code == 409
        moves.expect("scheduler_no_available_node_total", selector="features")
        left_out = caller.get("/metrics").json()["dispatch_exclude"]["by_reason"]
        assert left_out["no_free_slot"]["count"] >= 1
        assert 1 <= len(left_out["pair_unsupported"]["examples"]) <= 5
        assert node.node_id in left_out["no_free_slot"]["examples"]


def test_nodes_left_out_are_counted_also_when_another_is_chosen(
    server: ServerProcess, caller: Caller, pair: Pair
) -> None:
    with ManualNode(server, new_pair()), ManualNode(server, pair) as node:
        moves = Moves(server)
        assert caller.ask(pair).status_code == 201
        node.take()
        moves.expect("scheduler_dispatch_exclude_total", reason="pair_unsupported")


def test_a_job_that_waits_is_pending(server: ServerProcess, caller: Caller, pair: Pair) -> None:
    moves = Moves(server)
    with ManualNode(server, pair) as node:
        caller.ask(pair)
        # One that is not acknowledged would wait as well, for its next attempt.
        node.accept(node.take())
        waiting = caller.begin_to_ask(pair, wait_ms=30_000)
        moves.expect("scheduler_pending_jobs")
        assert waiting.result().status_code == 429
        assert moves.by("scheduler_pending_jobs") == 0


def test_a_node_that_comes_and_goes_is_counted_by_status(server: ServerProcess, pair: Pair) -> None:
    moves = Moves(server)
    with ManualNode(server, pair, slots=3):
        moves.expect("scheduler_nodes", status="ready")
        moves.expect("scheduler_slots", state="free")
    moves.expect("scheduler_nodes", status="offline")


def test_a_missing_model_moves_what_tells_of_models(server: ServerProcess, pair: Pair) -> None:
    moves = Moves(server)
    with ManualNode(server, pair) as node:
        for _ in range(3):
            node.say(type="model_not_available", service_id="asr", reason="  Out of Memory ")
        moves.expect("scheduler_model_na_received_total")
        moves.expect("scheduler_model_na_marked_total")
        moves.expect("scheduler_model_na_by_service_total", service_id="asr")
        moves.expect("scheduler_model_na_by_reason_total", reason="out of memory")
        moves.expect("scheduler_model_na_marked_by_node_total", node_id=node.node_id)
        moves.expect("scheduler_model_na_rate_limited_total")
        moves.expect("scheduler_model_na_rate_limited_by_node_total", node_id=node.node_id)


def test_speech_moves_what_tells_of_audio(server: ServerProcess, caller: Caller) -> None:
    moves = Moves(server)
    url = server.url.replace("http", "ws") + "/ws/session"
    with connect(url, compression=None) as client:
        say(client, type="session_init", src_lang="en", tgt_lang="es")
        moves.expect("scheduler_sessions")
        say(client, type="audio_chunk", seq=0, is_final=False, payload="AAAA")
        say(client, type="audio_chunk", seq=0, is_final=False, payload="AAAA")
        say(client, type="audio_chunk", seq=1, is_final=True, payload="AAAA")
        say(client, type="audio_chunk", seq=2, is_final=True)
        moves.expect("scheduler_web_task_finalized_total", reason="final")
        moves.expect("scheduler_audio_ignored_total", reason="repeated_seq")
        moves.expect("scheduler_audio_ignored_total", reason="empty_final")
        assert caller.get("/metrics").json()["web_task"]["final"] >= 1


def test_the_event_loop_and_the_catalog_are_watched(server: ServerProcess) -> None:
    moves = Moves(server)
    moves.expect("scheduler_event_loop_lag_seconds")
    moves.expect("scheduler_service_catalog_last_success_age_seconds")
    eventually(
        lambda: scrape(server).total("scheduler_service_catalog_fail_count") > 0, "a fetch failed"
    )


@pytest.mark.parametrize("path", ["allocation", "registration", "sweep", "stats_snapshot"])
def test_a_path_that_takes_long_is_counted(path: str) -> None:
    async def story(world: World) -> None:
        await world.node("n1")
        await (await world.submit("r1")).end()
        await world.until(lambda: world.metrics.slow_path.counts().get(path, 0) > 0)

    play(story, wrap=far(Random(1), seconds=0.5))


def test_metrics_as_json_have_every_field(server: ServerProcess, caller: Caller) -> None:
    eventually(lambda: caller.get("/stats").status_code == 200, "stats were ready")
    caller.ask(("aa", "bb"))
    found = caller.get("/metrics").json()

    assert set(found) == {
        "stats",
        "scheduling",
        "service_catalog",
        "model_na",
        "dispatch_exclude",
        "web_task",
        "slow_lock",
        "slow_path",
    }
    stats = found["stats"]
    assert stats["requests_total"] >= 1
    assert 0 <= stats["stale_ratio"] <= 1
    assert 0 < stats["p95_ms"] <= stats["p99_ms"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", stats["snapshot_generated_at"])
    assert found["scheduling"]["qps"] > 0
    assert set(found["service_catalog"]) == {"fail_count", "last_error", "last_success_at"}
    assert set(found["model_na"]) == {
        "received",
        "rate_limited",
        "marked",
        "by_service_top",
        "by_reason_top",
        "rate_limited_by_node_top",
        "marked_by_node_top",
    }


@pytest.mark.redis
def test_operations_on_redis_are_timed(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisProcess
) -> None:
    env = environment(
        DRAGOMAN_CLUSTER__ENABLED="true",
        DRAGOMAN_CLUSTER__REDIS_URL=redis_server.url,
        DRAGOMAN_CLUSTER__KEY_PREFIX="sight",
        DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS="5000",
        DRAGOMAN_SCHEDULER__STATS__SNAPSHOT_SECONDS="0.1",
    )
    pair = new_pair()
    with ServerProcess(tmp_path_factory.mktemp("redis") / "data", env=env) as server:
        caller = Caller(server)
        with ManualNode(server, pair) as node:
            caller.ask(pair)
            node.take()
            eventually(
                lambda: scrape(server).total("scheduler_slots", state="used") == 1,
                "the slot was seen to be held",
            )
            assert scrape(server).total("scheduler_redis_op_seconds", op="reserve") == 1
        caller.close()


def test_ten_thousand_names_and_hostile_reasons_fill_neither_the_metrics_nor_the_lists() -> None:
    async def story(world: World) -> None:
        for number in range(10_000):
            world.plane.feedback.report(
                NodeId(f"node-{number}"),
                ModelNotAvailable(
                    service_id=f"s{number}", reason=f'\n"}}{{\\ {number} ' + "x" * 999
                ),
            )
            if number % 500 == 0:
                await asyncio.sleep(0.01)
        node = await world.node("n1")
        for number in range(300):
            world.metrics.failover.labels(f"CODE_{number}").inc()
        await node.stop()
        await world.pass_time(1)
        text = world.metrics.exposition().decode()
        found = Scrape(text)
        for family in text_string_to_metric_families(text):
            for name in {sample.name for sample in family.samples}:
                most = 201 * (20 if name.endswith("_bucket") else 1)
                assert found.series(name) <= most, name
        assert found.total("scheduler_model_na_received_total") == 10_000
        assert found.total("scheduler_model_na_by_service_total") == 10_000
        assert found.total("scheduler_model_na_by_reason_total") == 10_000
        view = world.plane.feedback.view()
        assert len(view.by_service_top) <= 20
        assert all(len(entry.key) <= 64 for entry in view.by_reason_top)

    play(story)


def say(client: ClientConnection, **message: Any) -> None:
    client.send(json.dumps(message))
