"""The scheduler: starts runs, hands their items out, archives what comes back, ends them."""

from dragoman.lab.scheduler.modes import STRATEGIES
from dragoman.lab.scheduler.scheduler import Scheduler

__all__ = ["STRATEGIES", "Scheduler"]
