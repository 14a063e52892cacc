"""The states of runs and items: what the tables of transitions promise."""

from __future__ import annotations

import pytest

from dragoman.lab.states import (
    ACTIVE,
    ENDED,
    ITEM_ENDED,
    ITEM_TRANSITIONS,
    KILLABLE,
    RESULT_TRANSITIONS,
    RUN_TRANSITIONS,
    WORKING,
    ItemStatus,
    ResultState,
    RunStatus,
    sources,
)


def test_every_state_has_its_transitions() -> None:
    assert set(RUN_TRANSITIONS) == set(RunStatus)
    assert set(ITEM_TRANSITIONS) == set(ItemStatus)
    assert set(RESULT_TRANSITIONS) == set(ResultState)


def test_a_run_ends_in_one_of_three_states_and_stays_there() -> None:
    assert {RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.TERMINATED} == ENDED
    assert set(RunStatus) == ACTIVE | ENDED
    assert all(not RUN_TRANSITIONS[status] for status in ENDED)


@pytest.mark.parametrize("status", sorted(ACTIVE))
def test_every_run_can_come_to_an_end(status: RunStatus) -> None:
    reached = {status}
    while more := {s for one in reached for s in RUN_TRANSITIONS[one]} - reached:
        reached |= more

    assert reached & ENDED


@pytest.mark.parametrize("status", sorted(KILLABLE))
def test_whatever_can_be_killed_becomes_terminating(status: RunStatus) -> None:
    assert RunStatus.TERMINATING in RUN_TRANSITIONS[status]


def test_a_run_is_terminated_only_by_way_of_terminating() -> None:
    assert sources(RunStatus.TERMINATED) == {RunStatus.TERMINATING}


def test_work_is_done_only_for_runs_that_are_not_ending() -> None:
    assert {RunStatus.PROCESSING, RunStatus.DRAINING} == WORKING


def test_an_item_that_ended_can_only_be_tried_again() -> None:
    for status in ITEM_ENDED:
        assert ITEM_TRANSITIONS[status] == {ItemStatus.QUEUEING}
