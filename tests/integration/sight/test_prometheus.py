"""A real Prometheus reads a real server: every panel and every alert finds what it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from tests.integration.lab_api.conftest import jsonl, order_of
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)
from tests.integration.sight.deployed import PROMETHEUS, REPOSITORY, alerts, queries, shown
from tests.integration.sight.promql import parse
from tests.servers import PATIENT_MS, RedisProcess
from tests.servers.prometheus import PrometheusProcess, prometheus

pytestmark = pytest.mark.redis

DID_NOT_HAPPEN = frozenset(
    {
        "scheduler_audio_ignored_total",
        "scheduler_canary_jobs_total",
        "scheduler_jobs_catalog_down_total",
        "scheduler_live_samples_total",
        "scheduler_model_na_by_service_total",
        "scheduler_model_na_marked_by_node_total",
        "scheduler_result_fields_dropped_total",
        "scheduler_results_dropped_total",
        "scheduler_slow_lock_wait_total",
        "scheduler_slow_path_total",
        "scheduler_speech_to_audio_seconds_bucket",
        "scheduler_speech_to_text_seconds_bucket",
        "scheduler_speech_to_translation_seconds_bucket",
        "scheduler_web_task_finalized_total",
        "lab_live_sample_score_count",
        "lab_live_sample_score_sum",
    }
)
"""Metrics by reasons and names that a server has no series of before the thing has happened."""


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisProcess
) -> Iterator[ServerProcess]:
    """An instance of a cluster, with its lab, after a little work of every kind."""
    env = environment(
        DRAGOMAN_CLUSTER__ENABLED="true",
        DRAGOMAN_CLUSTER__REDIS_URL=redis_server.url,
        DRAGOMAN_CLUSTER__KEY_PREFIX="watched",
        DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS=str(PATIENT_MS),
        DRAGOMAN_SCHEDULER__STATS__SNAPSHOT_SECONDS="0.1",
        DRAGOMAN_LAB__PYTHON_ALLOW='["tests.integration.lab_api.*"]',
        PYTHONPATH=str(REPOSITORY),
    )
    data_dir = tmp_path_factory.mktemp("watched") / "data"
    with ServerProcess(data_dir, env=env, lab=True) as server:
        run_an_experiment(server)
        pair = new_pair()
        with ManualNode(server, pair) as node:
            run_jobs(server, node, pair)
            yield server


def run_jobs(server: ServerProcess, node: ManualNode, pair: tuple[str, str]) -> None:
    caller = Caller(server)
    try:
        for job_class in ("live", "batch"):
            asked = caller.begin_to_ask(pair, wait_ms=30_000, **{"class": job_class})
            node.succeed(node.take())
            await_success(caller, asked.result().json()["job_id"])
        answer = caller.begin_to_ask(pair, wait_ms=30_000)
        for _ in range(3):
            node.fail(node.take(), "GPU_ON_FIRE")
        assert answer.result().json()["outcome"] == "failed"
        assert caller.ask(("xx", "yy")).status_code == 409
    finally:
        caller.close()


def await_success(caller: Caller, job_id: str) -> None:
    eventually(lambda: caller.job(job_id)["outcome"] == "success", "the job ended")


def run_an_experiment(server: ServerProcess) -> None:
    """One item succeeds and one fails."""
    rows = [{"said": "1", "meant": "1"}, {"said": "x", "meant": "x"}]
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=PATIENCE_SECONDS) as http:
        dataset = http.post(
            "/datasets", data={"name": "cases"}, files={"file": ("d.jsonl", jsonl(rows))}
        ).json()
        function = "tests.integration.lab_api.targets:picky"
        target = {"kind": "python", "function": function}
        order = order_of(dataset["version_id"], target=target)
        experiment = http.post("/experiments/submit", json=order).json()
        path = f"/experiments/{experiment['experiment_id']}"
        eventually(
            lambda: http.get(path).json()["status"] in ("success", "failed"),
            "the experiment ended",
        )


@pytest.fixture(scope="module")
def watcher(
    server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusProcess]:
    """Prometheus with the deployed configuration, but for the address and the pace."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [server.url.partition("//")[2]]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "alerts.yml").write_text((PROMETHEUS / "alerts.yml").read_text())
    with prometheus(folder / "prometheus.yml", folder) as started:
        eventually(lambda: has_scraped_twice(started), "Prometheus had two samples of everything")
        yield started


def has_scraped_twice(watcher: PrometheusProcess) -> bool:
    counted = watcher.query("count_over_time(lab_process_cpu_seconds_total[1m])")
    return any(float(sample["value"][1]) >= 2 for sample in counted)


def as_grafana_asks(expression: str) -> str:
    """With the variables of the dashboard filled in."""
    return expression.replace("$instance", ".+").replace("$__rate_interval", "1m")


def test_every_panel_shows_something_of_a_server_at_work(watcher: PrometheusProcess) -> None:
    with ThreadPoolExecutor(4) as threads:
        answers = dict(
            zip(
                shown(),
                threads.map(lambda one: watcher.query(as_grafana_asks(one)), shown()),
                strict=True,
            )
        )
    empty = [
        expression
        for expression, samples in answers.items()
        if not samples and not parse(expression).metrics & DID_NOT_HAPPEN
    ]
    assert empty == []


def test_every_metric_that_is_asked_for_is_scraped_or_waits_for_its_thing_to_happen(
    watcher: PrometheusProcess,
) -> None:
    scraped = set(watcher.ask("label/__name__/values"))
    asked = {metric for expression in queries() for metric in parse(expression).metrics}
    assert asked - scraped <= DID_NOT_HAPPEN


def test_every_alert_is_evaluated_and_a_healthy_server_pages_no_operator(
    watcher: PrometheusProcess,
) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in watcher.ask("rules")["groups"] for rule in group["rules"]]

    eventually(
        lambda: all(rule["health"] != "unknown" for rule in rules()), "each rule was evaluated"
    )
    found = rules()
    assert {rule["name"] for rule in found} == {rule["alert"] for rule in alerts()}
    assert {rule["lastError"] for rule in found if "lastError" in rule} <= {""}
    assert {rule["health"] for rule in found} == {"ok"}
    assert [rule["name"] for rule in found if rule["state"] == "firing"] == []


def test_both_processes_of_a_server_tell_what_they_use_and_which_version_they_are(
    watcher: PrometheusProcess,
) -> None:
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_max_fds"):
        assert len(watcher.query(f"{name} > 0")) == 1
        assert len(watcher.query(f"lab_{name} > 0")) == 1
    (server,) = watcher.query("dragoman_build_info")
    (lab,) = watcher.query("lab_build_info")
    assert server["metric"]["version"] == lab["metric"]["version"]
    for dependency in ("database", "redis", "cluster", "lab"):
        asked = f'scheduler_dependency_up{{dependency="{dependency}"}} == 1'
        assert len(watcher.query(asked)) == 1, dependency


def test_autoscalers_are_told_of_the_sessions_and_of_the_share_of_slots_that_is_taken(
    watcher: PrometheusProcess,
) -> None:
    """What prometheus-adapter asks, with what it puts in for one object."""
    adapter = yaml.safe_load((REPOSITORY / "deploy/helm/prometheus-adapter.yaml").read_text())
    answers = {}
    for rule in adapter["rules"]["custom"]:
        asked = rule["metricsQuery"]
        asked = asked.replace("<<.LabelMatchers>>", 'job="dragoman"')
        answers[rule["name"]["as"]] = watcher.query(asked.replace("<<.GroupBy>>", "job"))
    assert set(answers) == {"scheduler_sessions", "dragoman_slots_used_percent"}
    for samples in answers.values():
        ((_, value),) = (sample["value"] for sample in samples)
        assert float(value) == 0
