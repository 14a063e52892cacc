"""The scheduler: starts runs, hands out their items, archives the results, ends the runs."""

from dragoman.lab.scheduler.modes import STRATEGIES
from dragoman.lab.scheduler.scheduler import Scheduler

__all__ = ["STRATEGIES", "Scheduler"]
