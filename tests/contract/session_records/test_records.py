"""What any keeper of session records promises to the sessions that write them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from tests.contract.session_records.backends import (
    FIRST,
    HERE,
    KEEP_DELIVERED,
    SECOND,
    SESSION,
    THERE,
    delivery,
    job,
    new_record,
)

from dragoman.ids import SessionId
from dragoman.live.sessions import SessionRecord, SessionRecords

Write = Callable[[SessionRecords, int], Awaitable[bool]]


async def stored(records: SessionRecords) -> SessionRecord:
    record = await records.read(SESSION)
    assert record is not None
    return record


async def opened(
    records: SessionRecords, *indexes: int, epoch: int = 1, chunk: int = 0, upto: int = 0
) -> bool:
    jobs = [job(index) for index in indexes]
    return await records.opened(
        SESSION, epoch, jobs, next_chunk_seq=chunk, next_utterance_index=upto
    )


# --- owners -------------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written(records: SessionRecords) -> None:
    async def story() -> None:
        assert await records.read(SESSION) is None
        await records.create(new_record())
        assert await records.read(SESSION) == new_record()
        assert await records.count() == 1

    asyncio.run(story())


def test_every_take_raises_the_epoch_and_answers_the_record(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        await opened(records, 0, chunk=7, upto=1)
        taken = await records.take(SESSION, THERE, SECOND)
        assert taken is not None
        assert (taken.owner.instance_id, taken.owner.connection_id) == (THERE, SECOND)
        assert taken.owner.epoch == 2
        assert taken.open_jobs == (job(0),)
        assert (taken.next_chunk_seq, taken.next_utterance_index) == (7, 1)
        again = await records.take(SESSION, HERE, FIRST)
        assert again is not None
        assert again.owner.epoch == 3
        assert await stored(records) == again

    asyncio.run(story())


def test_a_session_that_is_not_known_cannot_be_taken(records: SessionRecords) -> None:
    async def story() -> None:
        assert await records.take(SESSION, HERE, FIRST) is None
        assert await records.count() == 0

    asyncio.run(story())


def test_an_earlier_owner_changes_nothing(records: SessionRecords) -> None:
    writes: list[Write] = [
        lambda records, epoch: opened(records, 1, epoch=epoch, chunk=9, upto=2),
        lambda records, epoch: records.delivered(SESSION, epoch, [delivery(1, 0)]),
        lambda records, epoch: records.acknowledged(SESSION, epoch, 1),
        lambda records, epoch: records.forget(SESSION, epoch),
    ]

    async def story() -> None:
        await records.create(new_record())
        await opened(records, 0, chunk=1, upto=1)
        taken = await records.take(SESSION, THERE, SECOND)
        for write in writes:
            assert not await write(records, 1)
            assert await stored(records) == taken
        for write in writes:
            assert await write(records, 2)

    asyncio.run(story())


def test_nothing_can_be_written_to_a_session_that_is_not_known(records: SessionRecords) -> None:
    async def story() -> None:
        assert not await opened(records, 0)
        assert not await records.delivered(SESSION, 1, [delivery(1, 0)])
        assert not await records.acknowledged(SESSION, 1, 1)
        assert not await records.forget(SESSION, 1)
        assert await records.count() == 0

    asyncio.run(story())


# --- open utterances ----------------------------------------------------------------------------


def test_opened_jobs_add_up_and_say_what_need_not_be_sent_again(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        jobs = [job(0, "en"), job(0, "fr")]
        await records.opened(SESSION, 1, jobs, next_chunk_seq=4, next_utterance_index=1)
        await opened(records, 1, chunk=9, upto=2)
        record = await stored(records)
        assert record.open_jobs == (job(0, "en"), job(0, "fr"), job(1))
        assert (record.next_chunk_seq, record.next_utterance_index) == (9, 2)

    asyncio.run(story())


def test_a_job_opened_again_replaces_the_one_before(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        await records.opened(
            SESSION,
            1,
            [msgspec.structs.replace(job(0), job_id=None)],
            next_chunk_seq=1,
            next_utterance_index=1,
        )
        await opened(records, 0, chunk=1, upto=1)
        await opened(records, 0, chunk=1, upto=1)
        assert (await stored(records)).open_jobs == (job(0),)

    asyncio.run(story())


def test_an_utterance_without_any_job_still_moves_the_session_on(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        await opened(records, chunk=3, upto=1)
        record = await stored(records)
        assert (record.open_jobs, record.next_chunk_seq) == ((), 3)
        assert record.next_utterance_index == 1

    asyncio.run(story())


# --- deliveries ---------------------------------------------------------------------------------


def test_a_delivery_closes_its_job_alone_and_counts_on(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        jobs = [job(0, "en"), job(0, "fr")]
        await records.opened(SESSION, 1, jobs, next_chunk_seq=0, next_utterance_index=1)
        assert (await stored(records)).next_delivery_seq == 1
        await records.delivered(SESSION, 1, [delivery(1, 0, "fr")])
        record = await stored(records)
        assert record.open_jobs == (job(0, "en"),)
        assert record.unacknowledged == (delivery(1, 0, "fr"),)
        assert record.next_delivery_seq == 2
        both = [delivery(2, 0, "en", "JOB_TIMEOUT"), delivery(3, 1)]
        await records.delivered(SESSION, 1, both)
        record = await stored(records)
        assert record.unacknowledged == (delivery(1, 0, "fr"), *both)
        assert record.next_delivery_seq == 4

    asyncio.run(story())


def test_a_delivery_stored_twice_is_one_delivery(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        for _ in range(2):
            await records.delivered(SESSION, 1, [delivery(1, 0), delivery(2, 1)])
        record = await stored(records)
        assert record.unacknowledged == (delivery(1, 0), delivery(2, 1))
        assert record.next_delivery_seq == 3

    asyncio.run(story())


def test_what_is_acknowledged_is_let_go_up_to_its_number(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        await records.delivered(SESSION, 1, [delivery(seq, seq - 1) for seq in (1, 2, 3)])
        await records.acknowledged(SESSION, 1, 2)
        assert (await stored(records)).unacknowledged == (delivery(3, 2),)
        await records.acknowledged(SESSION, 1, 1)
        assert (await stored(records)).unacknowledged == (delivery(3, 2),)
        await records.acknowledged(SESSION, 1, 99)
        record = await stored(records)
        assert (record.unacknowledged, record.next_delivery_seq) == ((), 4)

    asyncio.run(story())


def test_unacknowledged_deliveries_are_bounded_and_the_newest_stay(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        for seq in range(1, 20):
            await records.delivered(SESSION, 1, [delivery(seq, seq - 1)])
        kept = (await stored(records)).unacknowledged
        assert [entry.delivery_seq for entry in kept] == list(range(20 - KEEP_DELIVERED, 20))
        assert (await stored(records)).next_delivery_seq == 20

    asyncio.run(story())


# --- the end ------------------------------------------------------------------------------------


def test_a_forgotten_session_is_gone_and_others_stay(records: SessionRecords) -> None:
    async def story() -> None:
        await records.create(new_record())
        await records.create(new_record(SessionId("s-2")))
        assert await records.forget(SESSION, 1)
        assert await records.read(SESSION) is None
        assert await records.take(SESSION, HERE, FIRST) is None
        assert await records.read(SessionId("s-2")) == new_record(SessionId("s-2"))
        assert await records.count() == 1

    asyncio.run(story())
