"""The states of experiments, runs and items, and every step between them that is allowed."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The state of a run; an experiment shows that of its latest run."""

    PENDING = "pending"
    PROCESSING = "processing"
    DRAINING = "draining"
    TERMINATING = "terminating"
    SUCCESS = "success"
    FAILED = "failed"
    TERMINATED = "terminated"


class ItemStatus(StrEnum):
    """The status of an item or of a turn, in the user's words."""

    QUEUEING = "queueing"
    PROCESSING = "processing"
    SUCCESS = "success"
    FAIL = "fail"
    TERMINATED = "terminated"


class ResultState(StrEnum):
    """How far a result has got from the worker to the tables that users see."""

    INIT = "init"
    LOGGED = "logged"
    RESULTED = "resulted"


class RunMode(StrEnum):
    """Which items a run takes, and what it takes over from earlier runs."""

    SUBMIT = "submit"
    FAIL_RETRY = "fail_retry"
    RETRY_ALL = "retry_all"
    RETRY_ITEMS = "retry_items"
    APPEND = "append"
    TRIAL = "trial"
    SCORE = "score"


RUN_TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PENDING: frozenset({RunStatus.PROCESSING, RunStatus.TERMINATING, RunStatus.FAILED}),
    RunStatus.PROCESSING: frozenset(
        {RunStatus.DRAINING, RunStatus.TERMINATING, RunStatus.SUCCESS, RunStatus.FAILED}
    ),
    RunStatus.DRAINING: frozenset({RunStatus.TERMINATING, RunStatus.SUCCESS, RunStatus.FAILED}),
    RunStatus.TERMINATING: frozenset({RunStatus.TERMINATED}),
    RunStatus.SUCCESS: frozenset(),
    RunStatus.FAILED: frozenset(),
    RunStatus.TERMINATED: frozenset(),
}
"""A run never comes back from its end. An experiment does: its next run begins as pending."""

ITEM_TRANSITIONS: dict[ItemStatus, frozenset[ItemStatus]] = {
    ItemStatus.QUEUEING: frozenset({ItemStatus.PROCESSING, ItemStatus.TERMINATED}),
    ItemStatus.PROCESSING: frozenset(
        {ItemStatus.QUEUEING, ItemStatus.SUCCESS, ItemStatus.FAIL, ItemStatus.TERMINATED}
    ),
    ItemStatus.SUCCESS: frozenset({ItemStatus.QUEUEING}),
    ItemStatus.FAIL: frozenset({ItemStatus.QUEUEING}),
    ItemStatus.TERMINATED: frozenset({ItemStatus.QUEUEING}),
}
"""From processing back to queueing: its worker was lost. From an end: it is tried again."""

RESULT_TRANSITIONS: dict[ResultState, frozenset[ResultState]] = {
    ResultState.INIT: frozenset({ResultState.LOGGED}),
    ResultState.LOGGED: frozenset({ResultState.RESULTED}),
    ResultState.RESULTED: frozenset({ResultState.INIT}),
}
"""The worker logs, the scheduler copies; back to init only when the item is tried again."""

ENDED: frozenset[RunStatus] = frozenset(
    status for status, following in RUN_TRANSITIONS.items() if not following
)
"""Where a run stays for good, and where a new one may start."""

ACTIVE: frozenset[RunStatus] = frozenset(RunStatus) - ENDED
"""Runs that need a driver."""

KILLABLE: frozenset[RunStatus] = ACTIVE - {RunStatus.TERMINATING}

WORKING: frozenset[RunStatus] = frozenset({RunStatus.PROCESSING, RunStatus.DRAINING})
"""Runs whose items workers may carry out."""

ITEM_ENDED: frozenset[ItemStatus] = frozenset(
    {ItemStatus.SUCCESS, ItemStatus.FAIL, ItemStatus.TERMINATED}
)


def sources(target: RunStatus) -> frozenset[RunStatus]:
    """The states from which a run may step to this one: the guard of every status write."""
    return frozenset(status for status, following in RUN_TRANSITIONS.items() if target in following)
