"""Waiting for the ends of jobs that other instances see to."""

from __future__ import annotations

import asyncio
from random import Random

from dragoman.clock import ManualClock
from dragoman.ids import InstanceId, JobId, RequestId, TenantId
from dragoman.live.dispatch import FORGOTTEN, Lookout
from dragoman.live.ledger import JobRecord, JobSpec, MemoryLedger
from dragoman.live.protocol import JobState, Outcome, Pipeline

SPEC = JobSpec(TenantId("t"), RequestId("r"), "en", "es", Pipeline(use_asr=False))


def lost_job() -> JobRecord:
    """A job that another instance drives, and that no ledger knows."""
    return JobRecord(
        job_id=JobId("j-00-lost"),
        spec=SPEC,
        state=JobState.CREATED,
        claimed_by=InstanceId("elsewhere"),
        created_at_ms=1,
        claim_until_ms=2,
        total_until_ms=None,
    )


def lookout() -> Lookout:
    clock = ManualClock()
    return Lookout(MemoryLedger(clock, Random(1)), clock)


def test_a_waiter_for_a_job_that_the_ledger_lost_is_told_once_that_it_is_forgotten() -> None:
    waits, told = lookout(), list[JobRecord]()
    waits.expect(lost_job(), told.append)

    asyncio.run(waits.look())
    asyncio.run(waits.look())

    assert [(end.job_id, end.outcome, end.error) for end in told] == [
        ("j-00-lost", Outcome.FAILED, FORGOTTEN)
    ]
    assert told[0].ended
    assert told[0].spec is SPEC
    assert len(waits) == 0


def test_a_waiter_that_left_hears_nothing_of_a_lost_job() -> None:
    waits, told = lookout(), list[JobRecord]()
    on_end = told.append
    waits.expect(lost_job(), on_end)
    waits.forget(lost_job().job_id, on_end)

    asyncio.run(waits.look())

    assert told == []
    assert len(waits) == 0
