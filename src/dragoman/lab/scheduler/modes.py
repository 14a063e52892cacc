"""The modes of a run: each says which items it takes and what it reuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.lab.model import Experiment, Run
from dragoman.lab.repository import Selection
from dragoman.lab.states import RunMode

Strategy = Callable[[Experiment, Run], Selection]


def _of(experiment: Experiment, **which: Any) -> Selection:
    spec = experiment.spec
    return Selection(spec.dataset_version_id, repetitions=spec.repetitions, **which)


def _everything(experiment: Experiment, run: Run) -> Selection:
    return _of(experiment)


def _what_did_not_succeed(experiment: Experiment, run: Run) -> Selection:
    return _of(experiment, unfinished_only=True)


def _the_named_items(experiment: Experiment, run: Run) -> Selection:
    return _of(experiment, named=run.item_ids)


def _the_first_items(experiment: Experiment, run: Run) -> Selection:
    return _of(experiment, most=run.trial_items)


def _what_has_outputs(experiment: Experiment, run: Run) -> Selection:
    return _of(experiment, with_outputs=True)


STRATEGIES: dict[RunMode, Strategy] = {
    RunMode.SUBMIT: _everything,
    RunMode.RETRY_ALL: _everything,
    RunMode.APPEND: _everything,
    RunMode.FAIL_RETRY: _what_did_not_succeed,
    RunMode.RETRY_ITEMS: _the_named_items,
    RunMode.TRIAL: _the_first_items,
    RunMode.SCORE: _what_has_outputs,
}


def selection_of(experiment: Experiment, run: Run) -> Selection:
    """Which items the run takes."""
    return STRATEGIES[run.mode](experiment, run)
