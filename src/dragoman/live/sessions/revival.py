"""Taking up a session that another instance held: its record, and what became of its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dragoman.ids import JobId
from dragoman.live.ledger import JobRecord
from dragoman.live.sessions.record import SessionRecord
from dragoman.live.sessions.tools import Tools


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
