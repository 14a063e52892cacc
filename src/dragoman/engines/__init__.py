"""What a node can run: engines, put together from stages, found by name or used directly."""

from dragoman.engines.assembling import Assembled, assemble
from dragoman.engines.choosing import NO_ENGINE, STAGES
from dragoman.engines.registry import GROUP, FoundEngine, engine_kind, engine_names, every_engine
from dragoman.engines.simulated.engine import SimulatedEngine
from dragoman.engines.simulated.latency import Latency, Shape
from dragoman.engines.simulated.profiles import PROFILES, Profile
from dragoman.engines.stage import (
    EngineKind,
    NoOptions,
    Opening,
    Requirement,
    Stage,
    StageKind,
    base_language,
)

__all__ = [
    "GROUP",
    "NO_ENGINE",
    "PROFILES",
    "STAGES",
    "Assembled",
    "EngineKind",
    "FoundEngine",
    "Latency",
    "NoOptions",
    "Opening",
    "Profile",
    "Requirement",
    "Shape",
    "SimulatedEngine",
    "Stage",
    "StageKind",
    "assemble",
    "base_language",
    "engine_kind",
    "engine_names",
    "every_engine",
]
