"""Taking up a session that another instance held: its record, and what became of its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from dragoman.ids import JobId
from dragoman.live.ledger import JobRecord
from dragoman.live.sessions.orders import targets_of
from dragoman.live.sessions.record import SessionRecord
from dragoman.live.sessions.tools import Tools


def is_behind(record: SessionRecord, has_upto: int) -> bool:
    """Whether the client heard of an utterance that the record does not know.

    The record's keeper went back to an earlier time, by a failover or with an old dump, and the
    owner was gone before it could write the record again. What the record would ask for next, the
    client no longer has: it goes on in a new session.
    """
    return has_upto > _most_ends(record)


def _most_ends(record: SessionRecord) -> int:
    """How many ends the utterances that the record knows can have had."""
    return record.next_utterance_index * len(targets_of(record.init))


def numbered_on(record: SessionRecord, has_upto: int) -> SessionRecord:
    """The record, with numbers that its client does not take for ones that it has had.

    A client may have heard more than its session's record knows of: Redis failed over, and the
    owner died before it could write the record again. With a single target all ends come in one
    order, and each gets the number again that it had. Several may come in another order this time:
    they get new numbers, and so the client hears some of them twice, and none never.
    """
    orders = {*targets_of(record.init), *(job.target for job in record.open_jobs)}
    if has_upto < record.next_delivery_seq:
        return record
    if has_upto == _most_ends(record):
        # The client has heard all of them, and hears none again.
        last = record.next_utterance_index - 1
        return msgspec.structs.replace(
            record,
            next_delivery_seq=has_upto + 1,
            open_jobs=(),
            ended={**record.ended, **dict.fromkeys(targets_of(record.init), last)},
        )
    if len(orders) == 1:
        return record
    return msgspec.structs.replace(record, next_delivery_seq=has_upto + 1)


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
