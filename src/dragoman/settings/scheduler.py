"""Settings of the live plane and of its monitoring."""

from __future__ import annotations

from pydantic import Field

from dragoman.settings.conversation import DeliverySettings, SegmentationSettings, SessionSettings
from dragoman.settings.fleet import (
    ModelNotAvailableSettings,
    NodeHealthSettings,
    ServiceCatalogSettings,
)
from dragoman.settings.jobs import (
    JobTimeoutSettings,
    PoolSettings,
    SelectionSettings,
    TaskBindingSettings,
)
from dragoman.settings.section import (
    Count,
    CountOrZero,
    Milliseconds,
    Seconds,
    SecondsOrZero,
    Section,
)


class StatsSettings(Section):
    """How often the dashboard's figures are computed."""

    snapshot_seconds: Seconds = Field(
        default=5, description="How often the stats snapshot is computed, in seconds."
    )
    stale_after_seconds: Seconds = Field(
        default=10, description="Age from which a stats snapshot counts as stale, in seconds."
    )
    cold_window_seconds: SecondsOrZero = Field(
        default=30,
        description="Before the first snapshot, requests compute at most one within this time, in "
        "seconds.",
    )


class ObservabilitySettings(Section):
    """When the scheduler warns about its own slowness."""

    lock_wait_warn_ms: Milliseconds = Field(
        default=10,
        description="Wait for a lock from which it is logged and counted, in milliseconds.",
    )
    path_warn_ms: Milliseconds = Field(
        default=50,
        description="Duration from which a step is logged and counted as slow, in milliseconds.",
    )
    top_k: Count = Field(
        default=20, description="How many entries each top list in the metrics has."
    )


class SchedulerSettings(Section):
    """How the scheduler assigns jobs to nodes."""

    max_concurrent_jobs_per_node: Count = Field(
        default=4, description="Slots of a node that does not state its number; not a maximum."
    )
    job_retention_seconds: SecondsOrZero = Field(
        default=600, description="How long an ended job can still be looked up, in seconds."
    )
    explain_max: CountOrZero = Field(
        default=10000,
        description="How many recent jobs one instance keeps explanations for.",
    )
    task_binding: TaskBindingSettings = TaskBindingSettings()
    web_task_segmentation: SegmentationSettings = SegmentationSettings()
    session: SessionSettings = SessionSettings()
    delivery: DeliverySettings = DeliverySettings()
    job_timeout: JobTimeoutSettings = JobTimeoutSettings()
    node_health: NodeHealthSettings = NodeHealthSettings()
    pools: PoolSettings = PoolSettings()
    selection: SelectionSettings = SelectionSettings()
    model_not_available: ModelNotAvailableSettings = ModelNotAvailableSettings()
    service_catalog: ServiceCatalogSettings = ServiceCatalogSettings()
    stats: StatsSettings = StatsSettings()
    observability: ObservabilitySettings = ObservabilitySettings()
