"""The shared ledger's laws, under random interleavings of everything that can be asked of it.

A failure names its seed; DRAGOMAN_CHAOS_SEED=... runs that life alone, DRAGOMAN_CHAOS_SCHEDULES=...
runs more lives than the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.chaos_seeds import ONLY, chaos_seeds
from tests.contract.shared import cell_life, shard_life
from tests.contract.shared.bench import Bench
from tests.contract.shared.cell_life import CellLife
from tests.contract.shared.shard_life import ShardLife

STEPS = 150


def seeds(default: int) -> range:
    return range(int(ONLY), int(ONLY) + 1) if ONLY is not None else chaos_seeds(default)


@contextmanager
def named(seed: int) -> Iterator[None]:
    """A failure says which life it was."""
    try:
        yield
    except Exception as problem:
        problem.add_note(f"seed {seed}: DRAGOMAN_CHAOS_SEED={seed}")
        raise


def test_no_interleaving_breaks_a_law_of_sessions_and_jobs(
    make_bench: Callable[..., Bench], lives: int
) -> None:
    for seed in seeds(lives):
        bench = make_bench(
            session_ms=shard_life.SESSION_MS, keep_delivered=shard_life.KEEP_DELIVERED
        )
        with named(seed):
            ShardLife(bench, seed).run(STEPS)


def test_no_interleaving_breaks_a_law_of_slots(
    make_bench: Callable[..., Bench], lives: int
) -> None:
    for seed in seeds(lives):
        bench = make_bench(cell_size=cell_life.CELL_SIZE)
        with named(seed):
            CellLife(bench, seed).run(STEPS)
