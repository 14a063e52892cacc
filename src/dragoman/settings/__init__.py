"""The settings: read once, checked as a whole, never changed while the program runs."""

from dragoman.settings.cluster import ClusterSettings
from dragoman.settings.conversation import DeliverySettings, SegmentationSettings, SessionSettings
from dragoman.settings.fleet import (
    ModelNotAvailableSettings,
    NodeHealthSettings,
    ServiceCatalogSettings,
)
from dragoman.settings.forms import is_loopback
from dragoman.settings.jobs import (
    JobTimeoutSettings,
    PoolSettings,
    SelectionSettings,
    TaskBindingSettings,
)
from dragoman.settings.lab import LabSettings
from dragoman.settings.limits import LimitSettings
from dragoman.settings.listing import as_listing, as_tree
from dragoman.settings.load import Loaded, load_settings
from dragoman.settings.not_built import EXPERIMENT_KEYS_NOT_BUILT
from dragoman.settings.rules import check_exposure
from dragoman.settings.scheduler import ObservabilitySettings, SchedulerSettings, StatsSettings
from dragoman.settings.server import (
    AuthSettings,
    LogSettings,
    ServerSettings,
    StoreSettings,
    TracingSettings,
)
from dragoman.settings.tree import Settings
from dragoman.settings.wording import masked

__all__ = [
    "EXPERIMENT_KEYS_NOT_BUILT",
    "AuthSettings",
    "ClusterSettings",
    "DeliverySettings",
    "JobTimeoutSettings",
    "LabSettings",
    "LimitSettings",
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
