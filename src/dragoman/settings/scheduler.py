"""Settings of the live plane, and of how it is watched."""

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
    """How often the numbers of the dashboard are made."""

    snapshot_seconds: Seconds = Field(
        default=5, description="How often the stats snapshot is made, in seconds."
    )
    stale_after_seconds: Seconds = Field(
        default=10, description="Age at which a stats snapshot is called stale, in seconds."
    )
    cold_window_seconds: SecondsOrZero = Field(
        default=30,
        description="While there is no snapshot yet, at most one is made for requests within this "
        "time, in seconds.",
    )


class ObservabilitySettings(Section):
    """When the scheduler warns about itself."""

    lock_wait_warn_ms: Milliseconds = Field(
        default=10, description="Wait for a lock that is logged and counted, in milliseconds."
    )
    path_warn_ms: Milliseconds = Field(
        default=50,
        description="Duration of a step that is logged and counted as slow, in milliseconds.",
    )
    top_k: Count = Field(
        default=20, description="How many entries the top lists of the metrics hold."
    )


class SchedulerSettings(Section):
    """How jobs are given to nodes."""

    max_concurrent_jobs_per_node: Count = Field(
        default=4, description="Slots of a node that does not say how many it has; not a cap."
    )
    job_retention_seconds: SecondsOrZero = Field(
        default=600, description="How long an ended job can still be looked up, in seconds."
    )
    explain_max: CountOrZero = Field(
        default=10000,
        description="Of how many recent jobs the explanation is kept on one instance.",
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
