"""Leases by name: one holder at a time, and no word from those before it."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.lab_repository.bench import Bench

from dragoman.lab.repository import Held, Ousted, leases, runs
from dragoman.lab.states import RunStatus


def test_a_lease_has_one_holder(bench: Bench) -> None:
    first = bench.write(lambda c: leases.take(c, "run/1", "a", 60_000))

    assert first == Held("run/1", "a", 1)
    assert bench.write(lambda c: leases.take(c, "run/1", "b", 60_000)) is None
    assert bench.write(lambda c: leases.take(c, "run/2", "b", 60_000)) is not None


def test_of_many_who_try_one_gets_it(bench: Bench) -> None:
    async def race() -> list[Held | None]:
        async def taker(owner: str) -> Held | None:
            return await bench.store.write(lambda c: leases.take(c, "run/1", owner, 60_000))

        return await asyncio.gather(*(taker(f"o-{n}") for n in range(8)))

    held = [one for one in bench.run(race()) if one is not None]
    assert len(held) == 1


def test_one_that_ran_out_passes_on_with_a_higher_token(bench: Bench) -> None:
    old = bench.write(lambda c: leases.take(c, "run/1", "a", -1))
    new = bench.write(lambda c: leases.take(c, "run/1", "b", 60_000))
    assert old is not None
    assert new is not None
    assert new.token > old.token

    with pytest.raises(Ousted):
        bench.write(lambda c: leases.require(c, old))
    with pytest.raises(Ousted):
        bench.write(lambda c: leases.renew(c, old, 60_000))
    bench.write(lambda c: leases.release(c, old))
    bench.write(lambda c: leases.require(c, new))


def test_one_that_was_released_is_free_at_once(bench: Bench) -> None:
    held = bench.write(lambda c: leases.take(c, "run/1", "a", 60_000))
    assert held is not None
    bench.write(lambda c: leases.release(c, held))

    assert bench.write(lambda c: leases.take(c, "run/1", "b", 60_000)) is not None


def test_a_run_is_orphaned_when_its_driver_is_silent(bench: Bench) -> None:
    bench.with_items(1)
    run = bench.new_run()
    name = runs.lease_name(run.run_id)
    assert bench.read(lambda c: runs.orphans(c, 10)) == [runs.Orphan(run.run_id, False)]

    held = bench.write(lambda c: leases.take(c, name, "a", 60_000))
    assert held is not None
    assert bench.read(lambda c: runs.orphans(c, 10)) == []

    bench.write(lambda c: leases.renew(c, held, -1))
    assert bench.read(lambda c: runs.orphans(c, 10)) == [runs.Orphan(run.run_id, False)]
    bench.write(lambda c: runs.change_status(c, run, RunStatus.FAILED, at_ms=1))
    assert bench.read(lambda c: runs.orphans(c, 10)) == []
