"""A record that was taken back to an earlier time is not written to as if nothing had happened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from tests.contract.session_records.backends import (
    FIRST,
    HERE,
    SECOND,
    SESSION,
    THERE,
    delivery,
    held,
    job,
    new_record,
)
from tests.contract.session_records.conftest import Tell

from dragoman.live.sessions import Holding, SessionRecords, Taken

Write = Callable[[SessionRecords, Holding], Awaitable[int]]

WRITES: tuple[Write, ...] = (
    lambda records, holding: records.opened(
        holding, [job(0)], next_chunk_seq=1, next_utterance_index=1
    ),
    lambda records, holding: records.delivered(holding, [delivery(1, 0)]),
    lambda records, holding: records.acknowledged(holding, 1),
)


async def revision(records: SessionRecords) -> int:
    record = await records.read(SESSION)
    assert record is not None
    return record.revision


def test_every_write_answers_the_next_revision(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for seen, write in enumerate(WRITES, start=1):
            assert await revision(records) == seen
            assert await write(records, held(seen=seen)) == seen + 1
        taken = await records.take(SESSION, THERE, SECOND)
        assert isinstance(taken, Taken)
        assert taken.record.revision == 5

    tell(story)


def test_renewing_and_taking_what_one_has_leave_the_revision(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.renew([held()])
        await records.take(SESSION, HERE, FIRST)
        assert await revision(records) == 1

    tell(story)


def test_an_owner_that_has_seen_less_may_write(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for answer, write in enumerate(WRITES, start=2):
            assert await write(records, held(seen=1)) == answer

    tell(story)


def test_a_record_that_is_older_than_its_owner_saw_it_is_not_written_to(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for write in WRITES:
            assert await write(records, held(seen=2)) == 0
        assert await records.renew([held(seen=2)]) == (SESSION,)
        assert await records.renew([held(seen=1)]) == ()
        assert await records.read(SESSION) == new_record()

    tell(story)


def test_its_owner_replaces_an_older_record_by_a_newer_one(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await WRITES[0](records, held())
        whole = msgspec.structs.replace(new_record(), revision=7, next_utterance_index=3)
        assert await records.restore(whole) == 7
        assert await records.read(SESSION) == whole
        assert await WRITES[1](records, held(seen=7)) == 8

    tell(story)


def test_a_record_is_not_replaced_by_one_of_the_same_revision(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await WRITES[0](records, held())
        before = await records.read(SESSION)
        assert await records.restore(msgspec.structs.replace(new_record(), revision=2)) == 0
        assert await records.read(SESSION) == before

    tell(story)


def test_a_new_owner_goes_on_from_the_revision_of_the_old_one(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(msgspec.structs.replace(new_record(), revision=30))
        taken = await records.take(SESSION, THERE, SECOND)
        assert isinstance(taken, Taken)
        assert taken.record.revision == 31
        assert await WRITES[0](records, held(2, seen=31)) == 32

    tell(story)
