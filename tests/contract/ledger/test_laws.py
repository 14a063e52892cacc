"""The ledger's laws, under random interleavings of everything that can be asked of it.

A failure names its seed; DRAGOMAN_CHAOS_SEED=... runs that life alone, DRAGOMAN_CHAOS_SCHEDULES=...
runs more lives than the default.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos_seeds import ONLY, chaos_seeds
from tests.contract.ledger.bench import Bench
from tests.contract.ledger.schedule import Schedule

STEPS = 120


def seeds(default: int) -> range:
    return range(int(ONLY), int(ONLY) + 1) if ONLY is not None else chaos_seeds(default)


def test_no_interleaving_breaks_a_law(make_bench: Callable[..., Bench], lives: int) -> None:
    for seed in seeds(lives):
        bench = make_bench(cell_size=2)
        try:
            Schedule(bench, seed).run(STEPS)
        except Exception as problem:
            problem.add_note(f"seed {seed}: DRAGOMAN_CHAOS_SEED={seed}")
            raise
