"""The lab's tables and queries: plain functions on a connection, put together by the caller."""

from dragoman.lab.repository import (
    aggregates,
    archiving,
    datasets,
    dispatching,
    ending,
    experiments,
    giving_up,
    items,
    journal,
    leases,
    ordering,
    pairing,
    removing,
    repeating,
    response_cache,
    results,
    reusing,
    runs,
    showing,
    starting,
)
from dragoman.lab.repository.archiving import Logged
from dragoman.lab.repository.dispatching import TakenBack
from dragoman.lab.repository.items import Lease
from dragoman.lab.repository.journal import (
    Entry,
    OutputEntry,
    ScoreEntry,
    TryEntry,
    TurnEntry,
)
from dragoman.lab.repository.leases import Held, Ousted
from dragoman.lab.repository.records import (
    evaluator_record_id,
    failure_record_id,
    target_record_id,
)
from dragoman.lab.repository.reusing import Leftovers
from dragoman.lab.repository.starting import Selection
from dragoman.lab.repository.statements import read_now_ms, storable

__all__ = [
    "Entry",
    "Held",
    "Lease",
    "Leftovers",
    "Logged",
    "Ousted",
    "OutputEntry",
    "ScoreEntry",
    "Selection",
    "TakenBack",
    "TryEntry",
    "TurnEntry",
    "aggregates",
    "archiving",
    "datasets",
    "dispatching",
    "ending",
    "evaluator_record_id",
    "experiments",
    "failure_record_id",
    "giving_up",
    "items",
    "journal",
    "leases",
    "ordering",
    "pairing",
    "read_now_ms",
    "removing",
    "repeating",
    "response_cache",
    "results",
    "reusing",
    "runs",
    "showing",
    "starting",
    "storable",
    "target_record_id",
]
