"""What any keeper of session records promises to the sessions that write them."""

from __future__ import annotations

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
from tests.contract.session_records.conftest import Tell

from dragoman.ids import SessionId
from dragoman.live.sessions import SessionOwner, SessionRecord, SessionRecords

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


def test_a_record_is_read_as_it_was_written(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert await records.read(SESSION) is None
        await records.create(new_record())
        assert await records.read(SESSION) == new_record()
        assert await records.count() == 1

    tell(story)


def test_every_take_raises_the_epoch_and_answers_the_record(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
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

    tell(story)


def test_a_take_whose_answer_was_lost_is_the_same_take_when_asked_again(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        taken = await records.take(SESSION, THERE, SECOND)
        assert await records.take(SESSION, THERE, SECOND) == taken
        assert not await opened(records, 0, epoch=1)
        assert await opened(records, 0, epoch=2)
        assert not await opened(records, 0, epoch=3)

    tell(story)


def test_the_same_connection_name_on_another_instance_is_another_owner(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        taken = await records.take(SESSION, THERE, FIRST)
        assert taken is not None
        assert taken.owner.epoch == 2

    tell(story)


def test_a_session_that_is_not_known_cannot_be_taken(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert await records.take(SESSION, HERE, FIRST) is None
        assert await records.count() == 0

    tell(story)


def test_an_earlier_owner_changes_nothing(tell: Tell) -> None:
    writes: list[Write] = [
        lambda records, epoch: opened(records, 1, epoch=epoch, chunk=9, upto=2),
        lambda records, epoch: records.delivered(SESSION, epoch, [delivery(1, 0)]),
        lambda records, epoch: records.acknowledged(SESSION, epoch, 1),
        lambda records, epoch: records.forget(SESSION, epoch),
    ]

    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await opened(records, 0, chunk=1, upto=1)
        taken = await records.take(SESSION, THERE, SECOND)
        for write in writes:
            assert not await write(records, 1)
            assert await stored(records) == taken
        for write in writes:
            assert await write(records, 2)

    tell(story)


def test_nothing_can_be_written_to_a_session_that_is_not_known(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert not await opened(records, 0)
        assert not await records.delivered(SESSION, 1, [delivery(1, 0)])
        assert not await records.acknowledged(SESSION, 1, 1)
        assert not await records.forget(SESSION, 1)
        assert await records.count() == 0

    tell(story)


def test_renewing_names_the_sessions_that_are_no_longer_the_askers(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        other, unknown = SessionId("s-2"), SessionId("s-3")
        await records.create(new_record())
        await records.create(new_record(other))
        assert await records.renew([(SESSION, 1), (other, 1)]) == ()
        await records.take(other, THERE, SECOND)
        assert await records.renew([(SESSION, 1), (other, 1), (unknown, 1)]) == (other, unknown)
        assert await records.renew([(other, 2)]) == ()
        assert await records.renew([]) == ()

    tell(story)


# --- restoring ----------------------------------------------------------------------------------


def full_record(epoch: int = 3) -> SessionRecord:
    """A session in the middle of its life."""
    return msgspec.structs.replace(
        new_record(),
        owner=SessionOwner(THERE, SECOND, epoch),
        next_chunk_seq=17,
        next_utterance_index=5,
        next_delivery_seq=4,
        open_jobs=(job(3), msgspec.structs.replace(job(4), job_id=None)),
        unacknowledged=(delivery(2, 1), delivery(3, 2, reason="JOB_TIMEOUT")),
        ended={"en": 2},
    )


def test_a_record_that_is_gone_is_restored_with_all_that_it_had(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert await records.restore(full_record())
        assert await stored(records) == full_record()
        assert await records.count() == 1
        assert await records.acknowledged(SESSION, 3, 2)
        assert (await stored(records)).unacknowledged == full_record().unacknowledged[1:]

    tell(story)


def test_a_restore_asked_again_undoes_nothing(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert await records.restore(full_record())
        await records.delivered(SESSION, 3, [delivery(4, 3)])
        moved_on = await stored(records)
        assert await records.restore(full_record())
        assert await stored(records) == moved_on

    tell(story)


def test_a_restore_never_takes_the_session_from_another_owner(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        taken = await records.take(SESSION, THERE, SECOND)
        assert not await records.restore(new_record())
        same_epoch = SessionOwner(HERE, FIRST, 2)
        assert not await records.restore(msgspec.structs.replace(new_record(), owner=same_epoch))
        assert await stored(records) == taken

    tell(story)


def test_an_owner_whose_take_was_forgotten_restores_its_record(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await opened(records, 0, 1, 2, chunk=3, upto=3)
        assert not await opened(records, 4, epoch=3)
        assert await records.restore(full_record())
        assert await stored(records) == full_record()

    tell(story)


# --- open utterances ----------------------------------------------------------------------------


def test_opened_jobs_add_up_and_say_what_need_not_be_sent_again(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        jobs = [job(0, "en"), job(0, "fr")]
        await records.opened(SESSION, 1, jobs, next_chunk_seq=4, next_utterance_index=1)
        await opened(records, 1, chunk=9, upto=2)
        record = await stored(records)
        assert record.open_jobs == (job(0, "en"), job(0, "fr"), job(1))
        assert (record.next_chunk_seq, record.next_utterance_index) == (9, 2)

    tell(story)


def test_a_job_opened_again_replaces_the_one_before(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
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

    tell(story)


def test_an_utterance_without_any_job_still_moves_the_session_on(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await opened(records, chunk=3, upto=1)
        record = await stored(records)
        assert (record.open_jobs, record.next_chunk_seq) == ((), 3)
        assert record.next_utterance_index == 1

    tell(story)


def test_what_need_not_be_sent_again_never_grows_back(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await opened(records, 1, chunk=9, upto=2)
        await opened(records, 0, chunk=4, upto=1)
        record = await stored(records)
        assert record.open_jobs == (job(0), job(1))
        assert (record.next_chunk_seq, record.next_utterance_index) == (9, 2)

    tell(story)


def test_a_delivered_utterance_is_not_opened_again_by_a_late_word(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.delivered(SESSION, 1, [delivery(1, 0), delivery(2, 1)])
        await records.acknowledged(SESSION, 1, 2)
        late = [job(0), job(1), job(1, "fr"), job(2)]
        await records.opened(SESSION, 1, late, next_chunk_seq=5, next_utterance_index=3)
        record = await stored(records)
        assert record.open_jobs == (job(1, "fr"), job(2))
        assert (record.next_chunk_seq, record.next_utterance_index) == (5, 3)
        assert record.ended == {"en": 1}

    tell(story)


def test_the_ends_of_ever_new_targets_are_bounded_and_the_latest_stay(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for index in range(50):
            await records.delivered(SESSION, 1, [delivery(index + 1, index, f"t{index:02d}")])
        ended = (await stored(records)).ended
        assert len(ended) < 50
        assert ended == {f"t{index:02d}": index for index in range(50 - len(ended), 50)}

    tell(story)


# --- deliveries ---------------------------------------------------------------------------------


def test_a_delivery_closes_its_job_alone_and_counts_on(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
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

    tell(story)


def test_a_delivery_stored_twice_is_one_delivery(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for _ in range(2):
            await records.delivered(SESSION, 1, [delivery(1, 0), delivery(2, 1)])
        record = await stored(records)
        assert record.unacknowledged == (delivery(1, 0), delivery(2, 1))
        assert record.next_delivery_seq == 3

    tell(story)


def test_what_is_acknowledged_is_let_go_up_to_its_number(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.delivered(SESSION, 1, [delivery(seq, seq - 1) for seq in (1, 2, 3)])
        await records.acknowledged(SESSION, 1, 2)
        assert (await stored(records)).unacknowledged == (delivery(3, 2),)
        await records.acknowledged(SESSION, 1, 1)
        assert (await stored(records)).unacknowledged == (delivery(3, 2),)
        await records.acknowledged(SESSION, 1, 99)
        record = await stored(records)
        assert (record.unacknowledged, record.next_delivery_seq) == ((), 4)

    tell(story)


def test_unacknowledged_deliveries_are_bounded_and_the_newest_stay(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for seq in range(1, 20):
            await records.delivered(SESSION, 1, [delivery(seq, seq - 1)])
        kept = (await stored(records)).unacknowledged
        assert [entry.delivery_seq for entry in kept] == list(range(20 - KEEP_DELIVERED, 20))
        assert (await stored(records)).next_delivery_seq == 20

    tell(story)


# --- the end ------------------------------------------------------------------------------------


def test_a_forgotten_session_is_gone_and_others_stay(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.create(new_record(SessionId("s-2")))
        assert await records.forget(SESSION, 1)
        assert not await records.forget(SESSION, 1)
        assert await records.read(SESSION) is None
        assert await records.take(SESSION, HERE, FIRST) is None
        assert await records.read(SessionId("s-2")) == new_record(SessionId("s-2"))
        assert await records.count() == 1

    tell(story)
