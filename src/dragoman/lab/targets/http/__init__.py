"""Any server that answers JSON, as a target."""

from dragoman.lab.targets.http.settings import Settings, check, unpriced
from dragoman.lab.targets.http.target import HttpTarget

__all__ = ["HttpTarget", "Settings", "check", "unpriced"]
