"""The numbers under /metrics: their names, their types, and their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dragoman.observability import Labelled, Metrics, TopK, normal_reason
from dragoman.observability.declare import SERIES_MAX
from dragoman.observability.histogram import CappedHistograms, QuickHistograms
from dragoman.observability.quick_counters import QuickCounters

COUNTERS = [
    "scheduler_stats_requests_total",
    "scheduler_stats_stale_total",
    "scheduler_model_na_received_total",
    "scheduler_model_na_rate_limited_total",
    "scheduler_model_na_marked_total",
    "scheduler_model_na_overflow_total",
    "scheduler_dlq_total",
    "scheduler_redis_full_total",
    "lab_zombies_total",
    "lab_fenced_writes_total",
    "lab_items_offered_again_total",
    "scheduler_model_na_by_service_total{service_id}",
    "scheduler_model_na_by_reason_total{reason}",
    "scheduler_model_na_rate_limited_by_node_total{node_id}",
    "scheduler_model_na_marked_by_node_total{node_id}",
    "scheduler_slow_lock_wait_total{lock}",
    "scheduler_slow_path_total{path}",
    "scheduler_no_available_node_total{selector,reason}",
    "scheduler_dispatch_exclude_total{reason}",
    "scheduler_web_task_finalized_total{reason}",
    "scheduler_audio_ignored_total{reason}",
    "scheduler_jobs_catalog_down_total{outcome}",
    "scheduler_jobs_total{class,outcome}",
    "scheduler_failover_total{reason}",
    "scheduler_canary_jobs_total{pair,stage,service,outcome}",
    "scheduler_results_dropped_total{reason}",
    "scheduler_result_fields_dropped_total{field}",
    "lab_items_total{status}",
    "lab_runs_ended_total{status}",
    "scheduler_live_samples_total{result}",
]

GAUGES = [
    "lab_mirror_lag_rows",
    "scheduler_event_loop_tasks",
    "lab_event_loop_tasks",
    "scheduler_stats_snapshot_age_seconds",
    "scheduler_service_catalog_fail_count",
    "scheduler_service_catalog_last_success_age_seconds",
    "scheduler_sessions",
    "scheduler_sessions_max",
    "scheduler_buffered_bytes",
    "scheduler_buffered_bytes_max",
    "scheduler_ready",
    "scheduler_dependency_up{dependency}",
    "scheduler_pending_jobs",
    "scheduler_inbox_pending",
    "scheduler_cluster_peers",
    "scheduler_slots{state}",
    "scheduler_nodes{status}",
    "lab_runs{status}",
]

HISTOGRAMS = [
    "scheduler_stats_request_duration_seconds",
    "scheduler_event_loop_lag_seconds",
    "scheduler_dispatch_latency_seconds",
    "scheduler_job_duration_seconds",
    "lab_item_seconds",
    "lab_refill_seconds",
    "scheduler_speech_to_text_seconds{pair,service}",
    "scheduler_speech_to_translation_seconds{pair,service}",
    "scheduler_speech_to_audio_seconds{pair,service}",
    "scheduler_lock_wait_seconds{lock}",
    "lab_live_sample_score{evaluator}",
    "scheduler_redis_op_seconds{op}",
]


def series(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Every sample by name, then by label values."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


@pytest.mark.parametrize(
    ("kind", "declared"), [("counter", COUNTERS), ("gauge", GAUGES), ("histogram", HISTOGRAMS)]
)
def test_every_metric_of_the_protocol_is_exposed_under_its_name(
    kind: str, declared: list[str]
) -> None:
    text = Metrics().exposition().decode()

    for name in declared:
        assert f"# TYPE {name.partition('{')[0]} {kind}\n" in text


def test_every_metric_has_the_labels_of_the_protocol() -> None:
    metrics = Metrics()
    for metric in vars(metrics).values():
        if isinstance(metric, Labelled):
            metric.labels(*("x" for _ in metric._normal))
        elif isinstance(metric, QuickCounters | CappedHistograms):
            metric.labels(*("x" for _ in metric._labels))
        elif isinstance(metric, QuickHistograms):
            metric.observe("x", 0.0)
    exposed: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            exposed[sample.name] = set(sample.labels) - {"le"}

    for declared in [*COUNTERS, *GAUGES, *HISTOGRAMS]:
        name, _, labels = declared.rstrip("}").partition("{")
        name += "_bucket" if declared in HISTOGRAMS else ""
        assert exposed[name] == (set(labels.split(",")) if labels else set()), declared


def test_histograms_by_what_clients_name_have_a_bound_too() -> None:
    metrics = Metrics()
    for number in range(SERIES_MAX + 50):
        metrics.speech_to_text.labels(f"xx:{number}", "ear@1").observe(0.1)
    counts = series(metrics)["scheduler_speech_to_text_seconds_count"]
    assert len(counts) == SERIES_MAX + 1
    assert counts["other", "other"] == 50


def test_a_decision_under_a_millisecond_falls_in_a_bucket_of_its_own() -> None:
    metrics = Metrics()
    metrics.jobs.labels("live", "success").inc()
    metrics.dispatch_latency.observe(0.0004)

    text = metrics.exposition().decode()
    assert 'scheduler_jobs_total{class="live",outcome="success"} 1.0' in text
    assert 'scheduler_dispatch_latency_seconds_bucket{le="0.00025"} 0.0' in text
    assert 'scheduler_dispatch_latency_seconds_bucket{le="0.0005"} 1.0' in text


def test_nothing_is_exposed_that_was_not_declared() -> None:
    metrics = Metrics()
    metrics.jobs.labels("live", "success").inc()
    metrics.lock_wait.labels("session").observe(0.1)

    declared = {name.partition("{")[0] for name in [*COUNTERS, *GAUGES, *HISTOGRAMS]}
    for name in series(metrics):
        plain = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        assert name in declared or plain in declared


def test_two_sets_of_metrics_do_not_share_anything() -> None:
    first, second = Metrics(), Metrics()
    first.sessions.set(5)

    assert series(second)["scheduler_sessions"] == {(): 0.0}


def test_ten_thousand_hostile_names_end_in_a_bounded_number_of_series() -> None:
    metrics = Metrics()
    for number in range(10_000):
        metrics.model_na_by_service.labels(f'evil"{number}\n\\\ud800' + "x" * number).inc()

    by_service = series(metrics)["scheduler_model_na_by_service_total"]
    assert len(by_service) <= 201
    assert by_service["other",] == 10_000 - 200
    assert sum(by_service.values()) == 10_000
    assert all(len(name) <= 128 for (name,) in by_service)


def test_a_name_known_before_the_flood_is_still_counted_by_itself() -> None:
    metrics = Metrics()
    metrics.model_na_by_service.labels("asr-1").inc()
    for number in range(1_000):
        metrics.model_na_by_service.labels(f"evil-{number}").inc()
    metrics.model_na_by_service.labels("asr-1").inc()

    assert metrics.model_na_by_service.counts()["asr-1"] == 2


def test_reasons_that_differ_in_case_and_spaces_are_one() -> None:
    metrics = Metrics()
    for reason in ["Out Of Memory", "  out of memory\n", "OUT OF MEMORY"]:
        metrics.model_na_by_reason.labels(reason).inc()

    assert metrics.model_na_by_reason.counts() == {"out of memory": 3}


@given(st.text())
def test_a_reason_is_short_trimmed_and_never_empty(reason: str) -> None:
    normal = normal_reason(reason)

    assert 1 <= len(normal) <= 64
    assert normal == normal.strip()
    assert normal_reason(normal) == normal


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(1, 4))
def test_the_top_names_are_exact_while_they_fit(names: list[str], k: int) -> None:
    top = TopK(k)
    for name in names:
        top.add(name)

    exact = sorted((-names.count(name), name) for name in set(names))[:k]
    assert [(entry.key, entry.count) for entry in top.top()] == [(n, -c) for c, n in exact]


def test_a_frequent_name_survives_a_flood_of_rare_ones() -> None:
    top = TopK(3)
    for number in range(10_000):
        top.add(f"rare-{number}")
        if number % 5 == 0:
            top.add("frequent")

    assert top.top()[0].key == "frequent"
    assert len(top.top()) == 3
    assert len(top._counts) <= 24
