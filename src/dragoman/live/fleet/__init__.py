"""The management domain: registration, heartbeats, health, drains; the writer of node facts."""

from dragoman.live.fleet.catalog import (
    CatalogRules,
    CatalogService,
    CatalogSource,
    CatalogState,
    HttpCatalogSource,
    ServiceCatalog,
)
from dragoman.live.fleet.health import (
    MOVES,
    HealthEvent,
    HealthRecord,
    HealthRules,
    ResourceMean,
    Thresholds,
)
from dragoman.live.fleet.node import Census, RegisteredNode, why_no_jobs
from dragoman.live.fleet.ports import AttemptPort, FleetPeerPort, NodeLink, Seated
from dragoman.live.fleet.registration import Applicant
from dragoman.live.fleet.registry import Registry
from dragoman.live.fleet.remote_nodes import RemoteNode, RemoteNodes
from dragoman.live.fleet.reports import FeedbackView
from dragoman.live.fleet.unavailable_services import Feedback, FeedbackRules, Mark

__all__ = [
    "MOVES",
    "Applicant",
    "AttemptPort",
    "CatalogRules",
    "CatalogService",
    "CatalogSource",
    "CatalogState",
    "Census",
    "Feedback",
    "FeedbackRules",
    "FeedbackView",
    "FleetPeerPort",
    "HealthEvent",
    "HealthRecord",
    "HealthRules",
    "HttpCatalogSource",
    "Mark",
    "NodeLink",
    "RegisteredNode",
    "Registry",
    "RemoteNode",
    "RemoteNodes",
    "ResourceMean",
    "Seated",
    "ServiceCatalog",
    "Thresholds",
    "why_no_jobs",
]
