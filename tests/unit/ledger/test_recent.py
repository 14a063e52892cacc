"""Jobs by age: the same answers as sorting them all, without looking at all."""

from __future__ import annotations

from random import Random

import pytest

from dragoman.ids import JobId
from dragoman.live.ledger.memory.recent import Made, RecentJobs


@pytest.mark.parametrize("seed", range(5))
def test_the_newest_are_those_that_sorting_finds(seed: int) -> None:
    random = Random(seed)
    recent, known = RecentJobs(), set[Made]()
    now_ms = 0
    for _ in range(6_000):
        now_ms += random.choice((0, 0, 1, 3))
        if known and random.random() < 0.3:
            # Mostly the oldest go, but some outlive them.
            gone = min(known) if random.random() < 0.8 else random.choice(sorted(known))
            known.remove(gone)
            recent.remove(gone)
        else:
            made = (now_ms, JobId(f"j-{random.getrandbits(64):016x}"))
            known.add(made)
            recent.add(made)
    in_order = sorted(known, reverse=True)
    assert list(recent.newest()) == [job_id for _, job_id in in_order]
    for _ in range(50):
        before = random.choice(in_order) if random.random() < 0.8 else (now_ms // 2, JobId("j-8"))
        expected = [job_id for made, job_id in in_order if (made, job_id) < before]
        assert list(recent.newest(before)) == expected
    for made in in_order:
        recent.remove(made)
    assert not recent
