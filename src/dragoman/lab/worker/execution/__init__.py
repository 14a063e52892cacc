"""How one item is carried out; what is stored, and by whom, is the worker's business."""

from dragoman.lab.worker.execution.allowance import Allowance
from dragoman.lab.worker.execution.bench import Bench, WorkLimits
from dragoman.lab.worker.execution.carrying_out import carry_out
from dragoman.lab.worker.execution.journal import Journal
from dragoman.lab.worker.execution.limiter import Limiter
from dragoman.lab.worker.execution.outcomes import ItemOutcome, Reusable, TurnOutcome

__all__ = [
    "Allowance",
    "Bench",
    "ItemOutcome",
    "Journal",
    "Limiter",
    "Reusable",
    "TurnOutcome",
    "WorkLimits",
    "carry_out",
]
