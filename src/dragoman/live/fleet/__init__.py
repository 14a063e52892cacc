"""The management domain: registration, heartbeats, health, drains; the writer of node facts."""

from dragoman.live.fleet.health import MOVES, Health, HealthEvent, HealthRules
from dragoman.live.fleet.node import Node
from dragoman.live.fleet.ports import AttemptPort, NodeLink
from dragoman.live.fleet.registration import Applicant
from dragoman.live.fleet.registry import Registry

__all__ = [
    "MOVES",
    "Applicant",
    "AttemptPort",
    "Health",
    "HealthEvent",
    "HealthRules",
    "Node",
    "NodeLink",
    "Registry",
]
