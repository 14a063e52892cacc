"""Taking up a session that another instance held: its record, and what became of its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from dragoman.ids import JobId
from dragoman.live.ledger import JobRecord
from dragoman.live.sessions.orders import targets_of
from dragoman.live.sessions.record import OpenJob, SessionRecord
from dragoman.live.sessions.tools import Tools


def mended(record: SessionRecord) -> SessionRecord:
    """The record, made whole where a failover lost some of what was written to it.

    What ended after an utterance proves that the utterance ended too. One that was taken in after
    everything that ended, and is not open, was lost; it is open without a job, and so its client
    hears of it.
    """
    ended = record.ended
    jobs = [job for job in record.open_jobs if job.utterance_index > ended.get(job.target, -1)]
    known = {job.utterance_index for job in jobs}
    for index in range(max(ended.values(), default=-1) + 1, record.next_utterance_index):
        if index not in known:
            jobs += [OpenJob(index, target, None) for target in targets_of(record.init)]
    jobs.sort(key=lambda job: (job.utterance_index, job.target))
    return msgspec.structs.replace(record, open_jobs=tuple(jobs))


async def read_jobs(
    record: SessionRecord, has_upto: int, tools: Tools
) -> Mapping[JobId, JobRecord]:
    """The jobs that the client of a session may still hear of, as far as the ledger has them."""
    wanted = dict.fromkeys(
        [job.job_id for job in record.open_jobs]
        + [entry.job_id for entry in record.unacknowledged if entry.delivery_seq > has_upto]
    )
    asked = [tools.ledger.read(job_id) for job_id in wanted if job_id is not None]
    return {job.job_id: job for job in await asyncio.gather(*asked) if job is not None}


async def release_heard(record: SessionRecord, has_upto: int, tools: Tools) -> None:
    """What the client heard from the earlier owner is acknowledged by its coming back."""
    heard = [entry for entry in record.unacknowledged if entry.delivery_seq <= has_upto]
    if heard:
        owner = record.owner
        await tools.records.acknowledged(record.session_id, owner.epoch, heard[-1].delivery_seq)
        await tools.ledger.release([entry.job_id for entry in heard if entry.job_id is not None])
