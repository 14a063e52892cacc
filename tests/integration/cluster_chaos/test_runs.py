"""Everything breaks under real processes, one thing after the other; then the laws must hold.

Five faults on a small fleet run here; `make chaos` makes long runs, with faults of all kinds, on 60
nodes with 300 sessions. DRAGOMAN_CLUSTER_CHAOS_SCALE=small takes the small fleet. A failure
names its seed, the folder with all records, and the command that makes the same run again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tests.integration.cluster_chaos.checker import broken_laws
from tests.integration.cluster_chaos.faults import NOT_ON_MASTERS, Kind, draw_kinds
from tests.integration.cluster_chaos.records import Heard
from tests.integration.cluster_chaos.run import Outcome, Scale, run

pytestmark = [pytest.mark.redis, pytest.mark.slow]

SECONDS = float(os.environ.get("DRAGOMAN_CLUSTER_CHAOS_SECONDS", "0"))
"""For how long each of the long runs breaks things; 0: there are none."""
RUNS = int(os.environ.get("DRAGOMAN_CLUSTER_CHAOS_RUNS", "1"))
SMALL_LONG_RUNS = os.environ.get("DRAGOMAN_CLUSTER_CHAOS_SCALE", "big") == "small"
"""For machines with other work to do: 300 sessions keep two idle cores busy."""
FIRST_SEED = int(os.environ.get("DRAGOMAN_CLUSTER_CHAOS_SEED", "1"))

SMALL = Scale(
    node_groups=3,
    nodes_a_group=4,
    slots=2,
    speaker_groups=1,
    speakers_a_group=30,
    callers_a_group=2,
    pause_seconds=1.5,
)
BIG = Scale(
    node_groups=6,
    nodes_a_group=10,
    slots=4,
    speaker_groups=3,
    speakers_a_group=100,
    callers_a_group=4,
    pause_seconds=4.0,
)
BETWEEN_FAULTS_SECONDS = 4.0

FIVE = (
    Kind.KILL_INSTANCE,
    Kind.PAUSE_INSTANCE,
    Kind.KILL_NODES,
    Kind.PAUSE_REDIS,
    Kind.EMPTY_REDIS,
)
SEED_OF_FIVE = 17
"""With it the instance stands still for longer than the others wait for it."""


@pytest.mark.timeout(900)
def test_every_utterance_ends_once_whatever_breaks(tmp_path: Path) -> None:
    _play(tmp_path, SEED_OF_FIVE, SMALL, FIVE)


@pytest.mark.skipif(SECONDS == 0, reason="DRAGOMAN_CLUSTER_CHAOS_SECONDS asks for long runs")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_a_long_run(tmp_path: Path, seed: int) -> None:
    faults = max(1, round(SECONDS / BETWEEN_FAULTS_SECONDS))
    scale = SMALL if SMALL_LONG_RUNS else BIG
    _play(tmp_path, seed, scale, draw_kinds(Random(seed), faults))


@pytest.mark.skipif(SECONDS == 0, reason="DRAGOMAN_CLUSTER_CHAOS_SECONDS asks for long runs")
@pytest.mark.timeout(0)
def test_a_long_run_on_three_masters(tmp_path: Path) -> None:
    """One of them forgets everything, or comes back as it was, and the others do not."""
    faults = max(1, round(SECONDS / BETWEEN_FAULTS_SECONDS))
    scale = SMALL if SMALL_LONG_RUNS else BIG
    kinds = draw_kinds(Random(FIRST_SEED), faults, without=NOT_ON_MASTERS)
    _play(tmp_path, FIRST_SEED, scale, kinds, redis_cluster=True)


def _play(
    folder: Path,
    seed: int,
    scale: Scale,
    kinds: Sequence[Kind],
    *,
    redis_cluster: bool = False,
) -> None:
    try:
        outcome = asyncio.run(
            run(folder, seed, scale, kinds, BETWEEN_FAULTS_SECONDS, redis_cluster=redis_cluster)
        )
        _judge(outcome)
    except BaseException as error:
        error.add_note(f"The run had seed {seed}; everybody's records are in {folder}.")
        if SECONDS:
            error.add_note(
                f"Make it again: DRAGOMAN_CLUSTER_CHAOS_SEED={seed}"
                f" DRAGOMAN_CLUSTER_CHAOS_SECONDS={SECONDS:g}"
                f" DRAGOMAN_CLUSTER_CHAOS_SCALE={'small' if SMALL_LONG_RUNS else 'big'}"
                " .venv/bin/pytest -k long_run tests/integration/cluster_chaos"
            )
        raise


def _judge(outcome: Outcome) -> None:
    broken = broken_laws(outcome.records)
    assert not broken, "\n".join(broken)
    assert not [text for text in outcome.errors if "Traceback" in text]
    assert not [log for log in outcome.logs if "Traceback" in log]
    heard = [record for record in outcome.records if isinstance(record, Heard)]
    assert sum(record.reason is None for record in heard) > len(heard) / 2, "hardly any results"
