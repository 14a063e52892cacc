"""What a node can run: engines, found by name or used directly."""

from dragoman.engines.registry import ENGINES, Engine, open_engine
from dragoman.engines.simulated.engine import SimulatedEngine
from dragoman.engines.simulated.latency import Latency, Shape
from dragoman.engines.simulated.profiles import PROFILES, Profile

__all__ = [
    "ENGINES",
    "PROFILES",
    "Engine",
    "Latency",
    "Profile",
    "Shape",
    "SimulatedEngine",
    "open_engine",
]
