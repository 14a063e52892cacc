"""Any server that answers JSON, as a target."""

from dragoman.lab.targets.http.settings import HttpTargetSettings, check, unpriced
from dragoman.lab.targets.http.target import HttpTarget

__all__ = ["HttpTarget", "HttpTargetSettings", "check", "unpriced"]
