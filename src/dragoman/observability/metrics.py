"""Every metric of Dragoman, each declared once."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from dragoman.observability.alerts import Labels, Readings
from dragoman.observability.declare import Declare, Declared
from dragoman.version import __version__

EXPOSITION_CONTENT_TYPE = CONTENT_TYPE_LATEST
"""The Content-Type of what `Metrics.exposition` returns."""

_FAST = (
    *(0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Seconds, for what should take well under a millisecond: decisions, locks, the event loop."""

_SCORES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0)
"""Scores are from 0 to 1, to 5 or 10 as judges give them, or to 100."""

_WORK = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""Seconds, for what a model does: utterances and experiment items."""


class Metrics:
    """The metrics of one process, in a registry of their own.

    Those without labels are Prometheus metrics (``metrics.sessions.set(3)``); the others are
    `Labelled` (``metrics.slots.labels("used").set(3)``), with a bound on their series.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        # Prometheus would add a `_created` series to each counter; the switch is process-wide.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry or CollectorRegistry()
        make = self._declare = Declare(self._registry)

        # --- jobs, from an utterance to its result
        self.jobs = make.quick_counters(
            "scheduler_jobs_total", "Jobs that ended.", "class", "outcome"
        )
        self.job_duration = make.histogram(
            "scheduler_job_duration_seconds", "From a job's claim to its end.", _WORK
        )
        self.dispatch_latency = make.histogram(
            "scheduler_dispatch_latency_seconds", "From a job's claim to its node.", _FAST
        )
        self.speech_to_text = make.capped_histograms(
            "scheduler_speech_to_text_seconds",
            "From the end of speech to its final text, by the service that recognised it.",
            _WORK,
            "pair",
            "service",
        )
        self.speech_to_translation = make.capped_histograms(
            "scheduler_speech_to_translation_seconds",
            "From the end of speech to its translated text, by the service that translated it.",
            _WORK,
            "pair",
            "service",
        )
        self.speech_to_audio = make.capped_histograms(
            "scheduler_speech_to_audio_seconds",
            "From the end of speech to its translated audio, by the service that spoke it.",
            _WORK,
            "pair",
            "service",
        )
        self.pending_jobs = make.gauge("scheduler_pending_jobs", "Jobs that wait for a free slot.")
        self.no_available_node = make.counters(
            "scheduler_no_available_node_total", "Jobs refused.", "selector", "reason"
        )
        self.dispatch_exclude = make.counters(
            "scheduler_dispatch_exclude_total", "Times a node was left out of a choice.", "reason"
        )
        self.failover = make.counters(
            "scheduler_failover_total", "Attempts given up for another node.", "reason"
        )
        self.canary_jobs = make.counters(
            "scheduler_canary_jobs_total",
            "Jobs drawn for a canary, by what the canary made of them.",
            "pair",
            "stage",
            "service",
            "outcome",
        )
        self.results_dropped = make.counters(
            "scheduler_results_dropped_total",
            "Results that came too late or amiss.",
            "reason",
        )
        self.result_fields_dropped = make.counters(
            "scheduler_result_fields_dropped_total",
            "Malformed optional fields dropped from results that were used.",
            "field",
        )

        # --- sessions and their audio
        self.sessions = make.gauge("scheduler_sessions", "Open sessions.")
        self.sessions_max = make.gauge(
            "scheduler_sessions_max", "Sessions that may be open at once: limits.max_sessions."
        )
        self.buffered_bytes = make.gauge(
            "scheduler_buffered_bytes",
            "Bytes kept for clients and nodes: audio, inputs that wait, results.",
        )
        self.buffered_bytes_max = make.gauge(
            "scheduler_buffered_bytes_max", "Bytes that may be kept: limits.buffered_bytes."
        )
        self.web_task_finalized = make.counters(
            "scheduler_web_task_finalized_total", "Utterances cut, by what cut them.", "reason"
        )
        self.audio_ignored = make.counters(
            "scheduler_audio_ignored_total", "Audio chunks that were not used.", "reason"
        )

        # --- the fleet
        self.nodes = make.gauges("scheduler_nodes", "Known nodes.", "status")
        self.slots = make.gauges("scheduler_slots", "Slots of connected nodes.", "state")

        # --- models that nodes report as not available
        self.model_na_received = make.counter(
            "scheduler_model_na_received_total", "Reports received."
        )
        self.model_na_rate_limited = make.counter(
            "scheduler_model_na_rate_limited_total", "Reports past a node's limit."
        )
        self.model_na_marked = make.counter(
            "scheduler_model_na_marked_total", "Reports that marked a service unavailable."
        )
        self.model_na_overflow = make.counter(
            "scheduler_model_na_overflow_total", "Reports dropped because the queue was full."
        )
        self.model_na_by_service = make.counters(
            "scheduler_model_na_by_service_total", "Reports by service.", "service_id"
        )
        self.model_na_by_reason = make.counters(
            "scheduler_model_na_by_reason_total", "Reports by reason.", "reason"
        )
        self.model_na_rate_limited_by_node = make.counters(
            "scheduler_model_na_rate_limited_by_node_total", "Reports past the limit.", "node_id"
        )
        self.model_na_marked_by_node = make.counters(
            "scheduler_model_na_marked_by_node_total", "Reports that marked a service.", "node_id"
        )

        # --- the service catalog
        self.service_catalog_fail_count = make.gauge(
            "scheduler_service_catalog_fail_count", "Refreshes that failed since the last success."
        )
        self.service_catalog_last_success_age = make.gauge(
            "scheduler_service_catalog_last_success_age_seconds", "Age of the last good refresh."
        )
        self.jobs_catalog_down = make.counters(
            "scheduler_jobs_catalog_down_total", "Jobs ended while the catalog was down.", "outcome"
        )

        # --- the stats snapshot
        self.stats_requests = make.counter("scheduler_stats_requests_total", "Stats requests.")
        self.stats_stale = make.counter(
            "scheduler_stats_stale_total", "Stats requests answered with an old snapshot."
        )
        self.stats_request_duration = make.histogram(
            "scheduler_stats_request_duration_seconds", "Time to answer a stats request.", _FAST
        )
        self.stats_snapshot_age = make.gauge(
            "scheduler_stats_snapshot_age_seconds", "Age of the stats snapshot."
        )

        # --- whether the server takes work
        self.ready = make.gauge(
            "scheduler_ready", "1 while /readyz answers 200, 0 while it answers 503."
        )
        self.dependency_up = make.gauges(
            "scheduler_dependency_up",
            "1 while what the server depends on answers, 0 while it is down.",
            "dependency",
        )

        # --- how the process itself is doing
        self.lock_wait = make.histograms(
            "scheduler_lock_wait_seconds", "Time spent waiting for a lock.", _FAST, "lock"
        )
        self.slow_lock_wait = make.counters(
            "scheduler_slow_lock_wait_total", "Waits for a lock past the limit.", "lock"
        )
        self.slow_path = make.counters(
            "scheduler_slow_path_total", "Passes through a path past the limit.", "path"
        )
        self.event_loop_lag = make.histogram(
            "scheduler_event_loop_lag_seconds", "How late the event loop wakes a timer.", _FAST
        )
        self.event_loop_tasks = make.gauge(
            "scheduler_event_loop_tasks", "Tasks open on the server's event loop."
        )

        # --- growing past one process
        self.redis_op = make.quick_histograms(
            "scheduler_redis_op_seconds", "Time of a Redis operation.", _FAST, "op"
        )
        self.redis_full = make.counter(
            "scheduler_redis_full_total",
            "Redis operations that Redis refused because its memory is full.",
        )
        self.inbox_pending = make.gauge(
            "scheduler_inbox_pending", "Messages in this instance's inbox, not yet handled."
        )
        self.dlq = make.counter("scheduler_dlq_total", "Messages moved to the dead letters.")
        self.cluster_peers = make.gauge(
            "scheduler_cluster_peers", "Other instances that this one sees."
        )

        # --- the lab
        self.lab_items = make.counters("lab_items_total", "Experiment items that ended.", "status")
        self.lab_runs = make.gauges(
            "lab_runs", "Runs of experiments that have not ended, of the whole lab.", "status"
        )
        self.lab_runs_ended = make.counters(
            "lab_runs_ended_total",
            "Runs of experiments that ended, each counted where it was driven.",
            "status",
        )
        self.lab_zombies = make.counter(
            "lab_zombies_total", "Items taken back from a worker that went silent."
        )
        self.lab_items_offered_again = make.counter(
            "lab_items_offered_again_total",
            "Times an item was offered again because no worker had taken it.",
        )
        self.lab_fenced_writes = make.counter(
            "lab_fenced_writes_total", "Writes refused because the item had been taken back."
        )
        self.lab_mirror_lag = make.gauge(
            "lab_mirror_lag_rows",
            "Items whose last change the columnar mirror does not have yet; above 10,000 they are "
            "counted only while it is made.",
        )
        self.lab_item = make.histogram("lab_item_seconds", "Time of an experiment item.", _WORK)
        self.lab_refill = make.histogram(
            "lab_refill_seconds", "From an item's end to the next one's start in its place.", _FAST
        )
        self.live_samples = make.counters(
            "scheduler_live_samples_total", "Live jobs to be scored, by what came of it.", "result"
        )
        self.lab_live_sample_score = make.histograms(
            "lab_live_sample_score", "Scores of live jobs.", _SCORES, "evaluator"
        )
        self.lab_event_loop_tasks = make.gauge(
            "lab_event_loop_tasks", "Tasks open on the event loop of the lab's process."
        )

    @property
    def declared(self) -> Sequence[Declared]:
        """Every metric that is declared here, in this order."""
        return self._declare.declared

    def describe_process(self, namespace: str = "") -> None:
        """Expose the version of this program, and the memory, files and time that it uses.

        Not part of every `Metrics`: the lab's process has a namespace, so that its numbers stand
        beside those of the server in one answer, and a server without its lab exposes none.
        """
        ProcessCollector(namespace=namespace, registry=self._registry)
        build = Info(
            f"{namespace or 'dragoman'}_build",
            "The version of this program, and of the Python that runs it.",
            registry=self._registry,
        )
        build.info({"version": __version__, "python": platform.python_version()})

    def show_readiness(self, ready: bool, dependencies: Mapping[str, bool]) -> None:
        """Whether the server is ready, and which dependencies answer."""
        self.ready.set(ready)
        for name, answers in dependencies.items():
            self.dependency_up.labels(name.removeprefix("the ").lower()).set(answers)

    def readings(self, names: Collection[str]) -> Readings:
        """Some metrics as they are now, by name and by labels."""
        found: dict[str, dict[Labels, float]] = {}
        for family in self._registry.collect():
            for sample in family.samples:
                if sample.name in names:
                    labels = tuple(sorted(sample.labels.items()))
                    found.setdefault(sample.name, {})[labels] = sample.value
        return found

    def exposition(self) -> bytes:
        """Everything in the Prometheus text format, for ``/metrics``."""
        return generate_latest(self._registry)
