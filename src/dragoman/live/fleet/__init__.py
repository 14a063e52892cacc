"""The management domain: registration, heartbeats, health, drains; the writer of node facts."""

from dragoman.live.fleet.catalog import CatalogRules, CatalogState, ServiceCatalog
from dragoman.live.fleet.catalog_form import CatalogService
from dragoman.live.fleet.catalog_source import CatalogSource, HttpCatalogSource
from dragoman.live.fleet.census import Census
from dragoman.live.fleet.far_nodes import FarNode, FarNodes
from dragoman.live.fleet.feedback import Feedback, FeedbackRules
from dragoman.live.fleet.health import MOVES, Health, HealthEvent, HealthRules
from dragoman.live.fleet.marks import Mark
from dragoman.live.fleet.node import Node, why_no_jobs
from dragoman.live.fleet.ports import AttemptPort, NodeLink, PeerPort, Seated
from dragoman.live.fleet.registration import Applicant
from dragoman.live.fleet.registry import Registry
from dragoman.live.fleet.reports import FeedbackView
from dragoman.live.fleet.resources import ResourceMean, Thresholds

__all__ = [
    "MOVES",
    "Applicant",
    "AttemptPort",
    "CatalogRules",
    "CatalogService",
    "CatalogSource",
    "CatalogState",
    "Census",
    "FarNode",
    "FarNodes",
    "Feedback",
    "FeedbackRules",
    "FeedbackView",
    "Health",
    "HealthEvent",
    "HealthRules",
    "HttpCatalogSource",
    "Mark",
    "Node",
    "NodeLink",
    "PeerPort",
    "Registry",
    "ResourceMean",
    "Seated",
    "ServiceCatalog",
    "Thresholds",
    "why_no_jobs",
]
