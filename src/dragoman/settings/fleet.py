"""Settings of the fleet: when a node is healthy, and what is known about its services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dragoman.settings.forms import HttpUrlOrEmpty
from dragoman.settings.section import Count, PercentOrZero, Ratio, Seconds, SecondsOrZero, Section

_ALL = 100

ResourceName = Literal["cpu", "mem", "gpu", "gpu_mem"]

DEFAULT_THRESHOLDS: Mapping[ResourceName, float] = {
    "cpu": 85.0,
    "mem": 85.0,
    "gpu": 85.0,
    "gpu_mem": 0.0,
}


def _all_four(value: Any) -> Any:
    """A plain number sets every resource; a resource that a table leaves out keeps its default."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= _ALL:
            raise ValueError(f"must be at least 0 and at most {_ALL}")
        return dict.fromkeys(DEFAULT_THRESHOLDS, value)
    return {**DEFAULT_THRESHOLDS, **value} if isinstance(value, Mapping) else value


ResourceThresholds = Annotated[Mapping[ResourceName, PercentOrZero], BeforeValidator(_all_four)]


class NodeHealthSettings(Section):
    """When a node gets jobs, when it is degraded, and when it is forgotten."""

    heartbeat_interval_seconds: Seconds = Field(
        default=15, description="How often a node must send a heartbeat, in seconds."
    )
    heartbeat_timeout_seconds: Seconds = Field(
        default=45, description="Silence after which a node is offline, in seconds."
    )
    reconnect_grace_seconds: SecondsOrZero = Field(
        default=2,
        description="How long a lost node may take to reconnect before its jobs go to other nodes, "
        "in seconds.",
    )
    ready_after: Count = Field(
        default=1, description="Good heartbeats in a row before a new or degraded node gets jobs."
    )
    window: Count = Field(
        default=5, description="How many of a node's last heartbeats window_failures looks at."
    )
    window_failures: Count = Field(
        default=3, description="Bad heartbeats within the window that degrade a node."
    )
    consecutive_failures: Count = Field(
        default=3, description="Bad heartbeats in a row that degrade a node."
    )
    resource_threshold_percent: ResourceThresholds = Field(
        default=DEFAULT_THRESHOLDS,
        description="Mean use of each resource over the last three heartbeats from which a node "
        "gets no more jobs, in percent; 0: never. A plain number sets all four.",
    )
    breaker_failures: Ratio = Field(
        default=0.6,
        description="Share of failures and timeouts in a node's last jobs from which it gets only "
        "one job at a time; 0: never.",
    )
    breaker_window: Count = Field(
        default=10, description="How many of a node's last jobs breaker_failures looks at."
    )
    forget_offline_seconds: Seconds = Field(
        default=3600, description="How long an offline node is remembered, in seconds."
    )


class ModelNotAvailableSettings(Section):
    """What the scheduler does when a node reports a missing model."""

    unavailable_ttl_seconds: Seconds = Field(
        default=60,
        description="How long the scheduler leaves out the node's service after a report, in "
        "seconds.",
    )
    debounce_window_seconds: SecondsOrZero = Field(
        default=5,
        description="Time within which reports about one service and version are handled once, "
        "in seconds.",
    )
    node_ratelimit_window_seconds: Seconds = Field(
        default=10, description="Time over which a node's reports are counted, in seconds."
    )
    node_ratelimit_max: Count = Field(
        default=30, description="Maximum reports of one node in that time; more are only counted."
    )
    queue: Count = Field(default=10000, description="Maximum reports waiting to be handled.")


class ServiceCatalogSettings(Section):
    """Where the list of known services comes from."""

    url: HttpUrlOrEmpty = Field(
        default="", description="Address of the catalog server; empty: none."
    )
    refresh_seconds: Seconds = Field(
        default=30, description="How often the catalog is fetched, in seconds."
    )
    timeout_seconds: Seconds = Field(
        default=5, description="How long one fetch of the catalog may take, in seconds."
    )
    backoff_after: Count = Field(
        default=3, description="Failed fetches in a row after which the time between them grows."
    )
    max_refresh_seconds: Seconds = Field(
        default=300, description="Longest time between fetches while they fail, in seconds."
    )
    local_index: str = Field(
        default="", description="Catalog file used until the first fetch succeeds; empty: none."
    )
