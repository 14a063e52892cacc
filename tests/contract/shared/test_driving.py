"""The operations suffice: whatever is lost, late or killed, each job ends once, and no node is
given more than it has slots for."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.shared.bench import Bench
from tests.contract.shared.driving import World
from tests.contract.shared.test_laws import named, seeds

ROUNDS = 60


def test_every_job_ends_once_and_every_slot_comes_back(
    make_bench: Callable[..., Bench], lives: int
) -> None:
    for seed in seeds(max(3, lives // 2)):
        bench = make_bench(cell_size=2)
        world = World(bench, seed)
        with named(seed):
            bench(world.run(ROUNDS))
            made = [job for name in world.names if (job := bench(bench.ledger.read(name)))]
            assert made, "no job was made"
            assert all(job.outcome is not None for job in made)
            assert {world.ends[job.job_id] for job in made} == {1}
            assert all(worker.most <= worker.slots for worker in world.workers)
            assert all(not worker.running for worker in world.workers)
            size = bench(bench.ledger.size())
            assert (size["held"], size["finished"], size["open"]) == (0, 0, 0)
