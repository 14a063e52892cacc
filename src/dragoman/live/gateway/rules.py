"""From the settings to the rules each room of the live plane works by."""

from __future__ import annotations

from operator import attrgetter

from dragoman.extras import require_extra
from dragoman.live.dispatch import (
    CanaryRoute,
    DriverTerms,
    LedgerTerms,
    SelectionRules,
    SharedTerms,
    SlotRules,
)
from dragoman.live.fleet import CatalogRules, FeedbackRules, HealthRules, Thresholds
from dragoman.live.gateway.limits import ConnectionLimits
from dragoman.live.ledger import Keep, Strategy
from dragoman.live.protocol import Vad, normal_language
from dragoman.live.sessions import PastRules, SegmentRules, SessionRules, VoiceRules
from dragoman.live.snapshot import PoolRule
from dragoman.settings import Settings

_COMMON = (
    "auth.mode",
    "cluster.owner_ttl_seconds",
    "cluster.presence_ttl_seconds",
    "cluster.redis_timeout_ms",
    "scheduler.job_retention_seconds",
    "scheduler.job_timeout.ack_seconds",
    "scheduler.job_timeout.run_seconds",
    "scheduler.job_timeout.total_seconds",
    "scheduler.node_health.heartbeat_timeout_seconds",
    "scheduler.node_health.reconnect_grace_seconds",
    "scheduler.pools.cell_size",
    "scheduler.pools.max_cells",
    "scheduler.pools.rule",
    "scheduler.task_binding.lease_seconds",
    "scheduler.task_binding.reserved_ttl_seconds",
)
"""Settings by which one instance judges what another has written, or lets callers in for all."""

_RECORD_KEPT_FACTOR = 5
"""A session's record outlives its grace by this."""


def common_settings(settings: Settings) -> dict[str, str]:
    """What all instances of a cluster must have alike, by name."""
    return {name: str(attrgetter(name)(settings)) for name in _COMMON}


def ledger_terms(settings: Settings) -> LedgerTerms:
    """How slots are granted, and how long ended jobs are remembered."""
    chosen, times = settings.scheduler.selection, settings.scheduler.job_timeout
    return LedgerTerms(
        slots=SlotRules(
            strategy=Strategy(chosen.strategy),
            batch_headroom=chosen.batch_headroom,
            batch_max_preemptions=chosen.batch_max_preemptions,
            grace_ms=int(times.cancel_grace_seconds * 1000),
        ),
        keep=Keep(
            lease_ms=int(settings.scheduler.task_binding.lease_seconds * 1000),
            retention_ms=int(settings.scheduler.job_retention_seconds * 1000),
        ),
    )


def shared_terms(settings: Settings) -> SharedTerms:
    """How slots are granted and jobs remembered where several instances share them."""
    alone, scheduler = ledger_terms(settings), settings.scheduler
    times = scheduler.job_timeout
    lease_seconds = min(
        scheduler.node_health.heartbeat_timeout_seconds, scheduler.task_binding.reserved_ttl_seconds
    )
    ack_ms = int(times.ack_seconds * 1000)
    return SharedTerms(
        slots=alone.slots,
        keep=alone.keep,
        claim_ms=ack_ms,
        ack_ms=ack_ms,
        lease_ms=int(lease_seconds * 1000),
        run_ms=int(times.run_seconds * 1000),
        total_ms=int(times.total_seconds * 1000),
        tombstone_ms=2 * ack_ms + 2 * settings.cluster.redis_timeout_ms,
        young_ms=max(0, ack_ms - 2 * settings.cluster.redis_timeout_ms),
    )


def session_record_ms(settings: Settings) -> int:
    """How long a session's record lives without a write: its owner renews it long before."""
    return int(_RECORD_KEPT_FACTOR * settings.scheduler.delivery.resume_grace_seconds * 1000)


def driver_terms(settings: Settings) -> DriverTerms:
    """How long the steps of a job may take, and how often it is tried."""
    times = settings.scheduler.job_timeout
    return DriverTerms(
        ack_seconds=times.ack_seconds,
        run_seconds=times.run_seconds,
        total_seconds=times.total_seconds,
        grace_seconds=times.cancel_grace_seconds,
        max_attempts=times.failover_max_attempts,
        pending_seconds=times.pending_seconds,
        pending_per_pair=settings.limits.pending_per_pair,
    )


def selection_rules(settings: Settings) -> SelectionRules:
    """How nodes are chosen."""
    scheduler = settings.scheduler
    binding, pools = scheduler.task_binding, scheduler.pools
    return SelectionRules(
        spread_window_seconds=binding.spread_window_seconds if binding.spread_enabled else None,
        by_hash=pools.choice == "session_hash",
        tenant_cells={tenant: tuple(cells) for tenant, cells in pools.tenant_cells.items()},
        affinity_ttl_seconds=scheduler.selection.affinity_ttl_seconds,
        prefer_local=scheduler.selection.prefer_local,
        canaries=tuple(
            CanaryRoute(
                _pair(route.pair),
                (route.stage, route.service),
                route.share,
            )
            for route in scheduler.canary.routes
        ),
    )


def _pair(written: str) -> tuple[str, str]:
    source, _, target = written.partition(":")
    return normal_language(source), normal_language(target)


def thresholds(settings: Settings) -> Thresholds:
    """How busy a node's machine may be."""
    percent = settings.scheduler.node_health.resource_threshold_percent
    return Thresholds(
        cpu=percent["cpu"],
        mem=percent["mem"],
        gpu=percent["gpu"],
        gpu_mem=percent["gpu_mem"],
    )


def health_rules(settings: Settings) -> HealthRules:
    """When heartbeats count."""
    health = settings.scheduler.node_health
    return HealthRules(
        interval_seconds=health.heartbeat_interval_seconds,
        timeout_seconds=health.heartbeat_timeout_seconds,
        reconnect_grace_seconds=health.reconnect_grace_seconds,
        ready_after=health.ready_after,
        window=health.window,
        window_failures=health.window_failures,
        consecutive_failures=health.consecutive_failures,
        thresholds=thresholds(settings),
        breaker_failures=health.breaker_failures,
        breaker_window=health.breaker_window,
        ack_seconds=settings.scheduler.job_timeout.ack_seconds,
        run_seconds=settings.scheduler.job_timeout.run_seconds,
        forget_offline_seconds=health.forget_offline_seconds,
    )


def feedback_rules(settings: Settings) -> FeedbackRules:
    """What becomes of reports that a model is not available."""
    feedback = settings.scheduler.model_not_available
    return FeedbackRules(
        ttl_seconds=feedback.unavailable_ttl_seconds,
        debounce_seconds=feedback.debounce_window_seconds,
        node_window_seconds=feedback.node_ratelimit_window_seconds,
        node_max=feedback.node_ratelimit_max,
        queue_max=feedback.queue,
        top_k=settings.scheduler.observability.top_k,
    )


def catalog_rules(settings: Settings) -> CatalogRules:
    """How the service catalog is kept fresh."""
    catalog = settings.scheduler.service_catalog
    return CatalogRules(
        refresh_seconds=catalog.refresh_seconds,
        backoff_after=catalog.backoff_after,
        max_refresh_seconds=catalog.max_refresh_seconds,
        local_index=catalog.local_index,
    )


def session_rules(settings: Settings) -> SessionRules:
    """What a session may use, and how long it waits for what."""
    scheduler, limits = settings.scheduler, settings.limits
    cutting, delivery = scheduler.web_task_segmentation, scheduler.delivery
    if cutting.vad != "off":
        require_extra("vad", f'scheduler.web_task_segmentation.vad = "{cutting.vad}"')
    return SessionRules(
        segments=SegmentRules(
            pause_ms=cutting.pause_ms,
            max_duration_ms=cutting.max_duration_ms,
            # A session that may keep less than the default utterance is cut there, not closed.
            max_bytes=min(cutting.max_bytes, limits.session_queue_bytes),
            hangover_auto_ms=cutting.hangover_auto_ms,
            hangover_manual_ms=cutting.hangover_manual_ms,
        ),
        voice=VoiceRules(
            vad=Vad(cutting.vad),
            min_speech_ms=cutting.min_speech_ms,
            pre_roll_ms=cutting.pre_roll_ms,
            pause_ms=cutting.speech_pause_ms,
            max_silero_sessions=cutting.max_silero_sessions,
        ),
        padding_auto_ms=cutting.padding_auto_ms,
        padding_manual_ms=cutting.padding_manual_ms,
        heartbeat_interval_seconds=scheduler.session.heartbeat_interval_seconds,
        heartbeat_timeout_seconds=scheduler.session.heartbeat_timeout_seconds,
        reorder_window=delivery.reorder_window,
        gap_grace_seconds=delivery.gap_grace_ms / 1000,
        resume_grace_seconds=delivery.resume_grace_seconds,
        max_inflight=limits.max_inflight_per_session,
        queue_messages=limits.session_queue,
        queue_bytes=limits.session_queue_bytes,
        max_sessions=limits.max_sessions,
        first_message_seconds=min(
            scheduler.node_health.heartbeat_timeout_seconds,
            scheduler.session.heartbeat_timeout_seconds,
        ),
        sessions_per_tenant=limits.sessions_per_tenant,
        listeners=limits.listeners_per_session,
        past=PastRules(
            utterances=scheduler.context.utterances,
            max_bytes=scheduler.context.max_bytes,
            tenants_without=frozenset(scheduler.context.tenants_without),
        ),
        semantic=PoolRule(scheduler.pools.rule) is not PoolRule.ASR_TTS,
    )


def node_connection_limits(settings: Settings) -> ConnectionLimits:
    limits = settings.limits
    return ConnectionLimits(
        max_frame_bytes=limits.max_frame_bytes,
        queue_messages=limits.node_queue,
        queue_bytes=limits.node_queue_bytes,
        messages_per_second=limits.node_messages_per_second,
    )


def session_connection_limits(settings: Settings) -> ConnectionLimits:
    limits = settings.limits
    return ConnectionLimits(
        max_frame_bytes=limits.max_frame_bytes,
        queue_messages=limits.session_queue,
        queue_bytes=limits.session_queue_bytes,
        messages_per_second=limits.messages_per_second,
    )
