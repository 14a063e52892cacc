"""Taking up a session that another instance held: its record, and what became of its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dragoman.ids import JobId
from dragoman.live.ledger import JobRecord
from dragoman.live.sessions.orders import targets_of
from dragoman.live.sessions.record import SessionRecord
from dragoman.live.sessions.tools import Tools


def is_behind(record: SessionRecord, has_upto: int) -> bool:
    """Whether the client of a session has heard ends that its record cannot account for.

    The record's keeper went back to an earlier time, by a failover or with an old dump, and the
    owner was gone before it could write the record again. With a single target all ends come in
    one order, and each gets the number again that it had. Several targets may end in another order
    this time: the record does not tell which ends the client has heard, and under which numbers.
    Then the client says what has not ended in a new session.
    """
    orders = {*targets_of(record.init), *(job.target for job in record.open_jobs)}
    return has_upto >= record.next_delivery_seq and len(orders) > 1


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
