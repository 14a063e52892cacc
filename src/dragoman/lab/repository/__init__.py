"""The lab's tables and queries: plain functions on a connection, put together by the caller."""

from dragoman.lab.repository import (
    aggregates,
    archiving,
    by_hand,
    datasets,
    dispatching,
    ending,
    experiments,
    giving_up,
    grouping,
    items,
    journal,
    leases,
    mirroring,
    ordering,
    removing,
    results,
    reusing,
    runs,
    showing,
    starting,
)
from dragoman.lab.repository.aggregates import (
    FAIL,
    FEW_VALUES,
    NO_CODE,
    PASS,
    PASSING_SCORE,
    Aggregates,
    Cause,
    Failures,
    Group,
    Outcomes,
    Spread,
    aggregate_of,
    edges_of,
    ranks_of,
    score_aggregate,
)
from dragoman.lab.repository.archiving import Logged
from dragoman.lab.repository.by_hand import typed
from dragoman.lab.repository.dispatching import TakenBack
from dragoman.lab.repository.fields import can_be_asked_in_sql, is_answered_by_sql
from dragoman.lab.repository.grouping import MAX_GROUPS
from dragoman.lab.repository.items import Lease
from dragoman.lab.repository.journal import (
    Entry,
    OutputEntry,
    ScoreEntry,
    TryEntry,
    TurnEntry,
)
from dragoman.lab.repository.leases import Held, Ousted
from dragoman.lab.repository.mirroring import Copied
from dragoman.lab.repository.ordering import Key, Place, Sorting, check_place, keys_of
from dragoman.lab.repository.records import (
    evaluator_record_id,
    failure_record_id,
    target_record_id,
)
from dragoman.lab.repository.results import WholeTurn
from dragoman.lab.repository.reusing import Leftovers
from dragoman.lab.repository.starting import Selection
from dragoman.lab.repository.statements import read_now_ms, storable

__all__ = [
    "FAIL",
    "FEW_VALUES",
    "MAX_GROUPS",
    "NO_CODE",
    "PASS",
    "PASSING_SCORE",
    "Aggregates",
    "Cause",
    "Copied",
    "Entry",
    "Failures",
    "Group",
    "Held",
    "Key",
    "Lease",
    "Leftovers",
    "Logged",
    "Ousted",
    "Outcomes",
    "OutputEntry",
    "Place",
    "ScoreEntry",
    "Selection",
    "Sorting",
    "Spread",
    "TakenBack",
    "TryEntry",
    "TurnEntry",
    "WholeTurn",
    "aggregate_of",
    "aggregates",
    "archiving",
    "by_hand",
    "can_be_asked_in_sql",
    "check_place",
    "datasets",
    "dispatching",
    "edges_of",
    "ending",
    "evaluator_record_id",
    "experiments",
    "failure_record_id",
    "giving_up",
    "grouping",
    "is_answered_by_sql",
    "items",
    "journal",
    "keys_of",
    "leases",
    "mirroring",
    "ordering",
    "ranks_of",
    "read_now_ms",
    "removing",
    "results",
    "reusing",
    "runs",
    "score_aggregate",
    "showing",
    "starting",
    "storable",
    "target_record_id",
    "typed",
]
