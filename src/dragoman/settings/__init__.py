"""The settings: read once, checked as a whole, never changed while the program runs."""

from dragoman.settings.kinds import is_loopback, masked
from dragoman.settings.load import (
    Loaded,
    as_listing,
    as_tree,
    load_settings,
)
from dragoman.settings.scheduler import (
    DeliverySettings,
    JobTimeoutSettings,
    ModelNotAvailableSettings,
    NodeHealthSettings,
    ObservabilitySettings,
    PoolSettings,
    SchedulerSettings,
    SegmentationSettings,
    SelectionSettings,
    ServiceCatalogSettings,
    SessionSettings,
    StatsSettings,
    TaskBindingSettings,
)
from dragoman.settings.server import (
    AuthSettings,
    ClusterSettings,
    LabSettings,
    LimitSettings,
    LiveSampleSettings,
    LogSettings,
    ServerSettings,
    StoreSettings,
    TracingSettings,
)
from dragoman.settings.tree import Settings, check_exposure

__all__ = [
    "AuthSettings",
    "ClusterSettings",
    "DeliverySettings",
    "JobTimeoutSettings",
    "LabSettings",
    "LimitSettings",
    "LiveSampleSettings",
    "Loaded",
    "LogSettings",
    "ModelNotAvailableSettings",
    "NodeHealthSettings",
    "ObservabilitySettings",
    "PoolSettings",
    "SchedulerSettings",
    "SegmentationSettings",
    "SelectionSettings",
    "ServerSettings",
    "ServiceCatalogSettings",
    "SessionSettings",
    "Settings",
    "StatsSettings",
    "StoreSettings",
    "TaskBindingSettings",
    "TracingSettings",
    "as_listing",
    "as_tree",
    "check_exposure",
    "is_loopback",
    "load_settings",
    "masked",
]
