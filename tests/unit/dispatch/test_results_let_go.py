"""Results that were delivered are let go of beside the jobs that are placed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from unittest.mock import create_autospec

from dragoman.clock import SystemClock
from dragoman.ids import InstanceId, JobId
from dragoman.live.dispatch import Job, SharedTerms
from dragoman.live.dispatch.cluster.ledger import ClusterLedger
from dragoman.live.gateway.rules import shared_terms
from dragoman.live.shared import SharedLedger
from dragoman.settings import Settings
from dragoman.testing import virtual

MOST_AT_ONCE = 100
"""More records in one call would hold a server up for longer than a job may wait."""


class SlowLedger:
    """Takes a second for each release, and notes what was released together."""

    def __init__(self) -> None:
        self.released: list[tuple[JobId, ...]] = []
        self.under_way = 0
        self.most_under_way = 0

    async def release(self, job_ids: Sequence[JobId]) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(1)
        self.released.append(tuple(job_ids))
        self.under_way -= 1


@virtual
async def test_thousands_are_let_go_of_a_few_at_a_time_and_none_is_forgotten() -> None:
    slow = SlowLedger()
    shared = create_autospec(SharedLedger, instance=True)
    shared.release = slow.release
    terms: SharedTerms = shared_terms(Settings())
    ledger = ClusterLedger(shared, terms, InstanceId("i-1"), SystemClock(), Random(0))
    job_ids = [JobId(f"j-{number % 16:02x}{number:032x}") for number in range(4_000)]
    for job_id in job_ids:
        job = create_autospec(Job, instance=True)
        job.job_id = job_id
        ledger.release_now(job)
    async with asyncio.timeout(600):
        while sum(map(len, slow.released)) < len(job_ids):  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(1)
    assert sorted(each for some in slow.released for each in some) == sorted(job_ids)
    assert max(map(len, slow.released)) <= MOST_AT_ONCE
    assert all(len({each[2:4] for each in some}) == 1 for some in slow.released)
    assert slow.most_under_way == 1
