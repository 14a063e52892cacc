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
    held,
    job,
    new_record,
    owner,
)
from tests.contract.session_records.conftest import Tell

from dragoman.errors import RateLimited
from dragoman.ids import ConnectionId, SessionId
from dragoman.live.sessions import (
    ChangedHands,
    Holding,
    SessionOwner,
    SessionRecord,
    SessionRecords,
    Taken,
)

Write = Callable[[SessionRecords, int], Awaitable[int]]


async def stored(records: SessionRecords) -> SessionRecord:
    record = await records.read(SESSION)
    assert record is not None
    return record


async def opened(
    records: SessionRecords, *indexes: int, epoch: int = 1, chunk: int = 0, upto: int = 0
) -> int:
    jobs = [job(index) for index in indexes]
    return await records.opened(held(epoch), jobs, next_chunk_seq=chunk, next_utterance_index=upto)


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
        assert isinstance(taken, Taken)
        assert (taken.before, taken.record.owner) == (owner(1), owner(2))
        assert taken.record.open_jobs == (job(0),)
        assert (taken.record.next_chunk_seq, taken.record.next_utterance_index) == (7, 1)
        again = await records.take(SESSION, HERE, FIRST)
        assert isinstance(again, Taken)
        assert (again.before, again.record.owner) == (owner(2), owner(3))
        assert await stored(records) == again.record

    tell(story)


def test_a_take_that_is_carried_out_late_takes_nothing_from_who_came_after_it(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        taken = await records.take(SESSION, THERE, SECOND, epoch=1)
        assert isinstance(taken, Taken)
        late = await records.take(SESSION, HERE, ConnectionId("c-late"), epoch=1)
        assert late == ChangedHands()
        assert await stored(records) == taken.record
        assert await opened(records, 0, epoch=2), "the owner is the same"
        again = await records.take(SESSION, THERE, SECOND, epoch=1)
        assert isinstance(again, Taken)
        assert again.record.owner == taken.record.owner, "who owns it stays the owner"
        next_one = await records.take(SESSION, HERE, FIRST, epoch=2)
        assert isinstance(next_one, Taken)

    tell(story)


def test_a_take_whose_answer_was_lost_is_the_same_take_when_asked_again(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        taken = await records.take(SESSION, THERE, SECOND)
        again = await records.take(SESSION, THERE, SECOND)
        assert isinstance(taken, Taken)
        assert isinstance(again, Taken)
        assert again.record == taken.record
        assert not await opened(records, 0, epoch=1)
        assert await opened(records, 0, epoch=2)
        assert not await opened(records, 0, epoch=3)

    tell(story)


def test_the_same_connection_name_on_another_instance_is_another_owner(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        taken = await records.take(SESSION, THERE, FIRST)
        assert isinstance(taken, Taken)
        assert taken.record.owner.epoch == 2

    tell(story)


def test_a_session_that_is_not_known_cannot_be_taken(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert await records.take(SESSION, HERE, FIRST) is None
        assert await records.count() == 0

    tell(story)


def test_an_earlier_owner_changes_nothing(tell: Tell) -> None:
    writes: list[Write] = [
        lambda records, epoch: opened(records, 1, epoch=epoch, chunk=9, upto=2),
        lambda records, epoch: records.delivered(held(epoch), [delivery(1, 0)]),
        lambda records, epoch: records.acknowledged(held(epoch), 1),
        lambda records, epoch: records.forget(SESSION, owner(epoch)),
    ]

    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await opened(records, 0, chunk=1, upto=1)
        taken = await records.take(SESSION, THERE, SECOND)
        assert isinstance(taken, Taken)
        for write in writes:
            assert not await write(records, 1)
            assert await stored(records) == taken.record
        for write in writes:
            assert await write(records, 2)

    tell(story)


def test_of_two_owners_with_the_same_epoch_only_the_one_in_the_record_writes(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for other in (SessionOwner(THERE, FIRST, 1), SessionOwner(HERE, SECOND, 1)):
            holding = Holding(SESSION, other, 0)
            assert not await records.delivered(holding, [delivery(1, 0)])
            assert await records.renew([holding]) == (SESSION,)
            assert not await records.forget(SESSION, other)
        assert await stored(records) == new_record()

    tell(story)


def test_nothing_can_be_written_to_a_session_that_is_not_known(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert not await opened(records, 0)
        assert not await records.delivered(held(), [delivery(1, 0)])
        assert not await records.acknowledged(held(), 1)
        assert not await records.forget(SESSION, owner())
        assert await records.count() == 0

    tell(story)


def test_renewing_names_the_sessions_that_are_no_longer_the_askers(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        other, unknown = SessionId("s-2"), SessionId("s-3")
        await records.create(new_record())
        await records.create(new_record(other))
        mine = [Holding(session_id, owner(), 1) for session_id in (SESSION, other, unknown)]
        assert await records.renew(mine[:2]) == ()
        await records.take(other, THERE, SECOND)
        assert await records.renew(mine) == (other, unknown)
        assert await records.renew([Holding(other, owner(2), 2)]) == ()
        assert await records.renew([]) == ()

    tell(story)


# --- restoring ----------------------------------------------------------------------------------


def full_record(epoch: int = 3) -> SessionRecord:
    """A session in the middle of its life."""
    return msgspec.structs.replace(
        new_record(),
        owner=owner(epoch),
        revision=9,
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
        assert await records.acknowledged(held(3), 2)
        assert (await stored(records)).unacknowledged == full_record().unacknowledged[1:]

    tell(story)


def test_a_restore_asked_again_undoes_nothing(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        assert await records.restore(full_record())
        await records.delivered(held(3), [delivery(4, 3)])
        moved_on = await stored(records)
        assert not await records.restore(full_record())
        assert await stored(records) == moved_on

    tell(story)


def test_a_restore_never_takes_the_session_from_another_owner(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        taken = await records.take(SESSION, THERE, SECOND)
        assert not await records.restore(new_record())
        same_epoch = msgspec.structs.replace(
            new_record(), owner=SessionOwner(HERE, FIRST, 2), revision=99
        )
        assert not await records.restore(same_epoch)
        assert isinstance(taken, Taken)
        assert await stored(records) == taken.record

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
        await records.opened(held(), jobs, next_chunk_seq=4, next_utterance_index=1)
        await opened(records, 1, chunk=9, upto=2)
        record = await stored(records)
        assert record.open_jobs == (job(0, "en"), job(0, "fr"), job(1))
        assert (record.next_chunk_seq, record.next_utterance_index) == (9, 2)

    tell(story)


def test_a_job_opened_again_replaces_the_one_before(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.opened(
            held(),
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
        await records.delivered(held(), [delivery(1, 0), delivery(2, 1)])
        await records.acknowledged(held(), 2)
        late = [job(0), job(1), job(1, "fr"), job(2)]
        await records.opened(held(), late, next_chunk_seq=5, next_utterance_index=3)
        record = await stored(records)
        assert record.open_jobs == (job(1, "fr"), job(2))
        assert (record.next_chunk_seq, record.next_utterance_index) == (5, 3)
        assert record.ended == {"en": 1}

    tell(story)


def test_the_ends_of_ever_new_targets_are_bounded_and_the_latest_stay(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for index in range(50):
            await records.delivered(held(), [delivery(index + 1, index, f"t{index:02d}")])
        ended = (await stored(records)).ended
        assert len(ended) < 50
        assert ended == {f"t{index:02d}": index for index in range(50 - len(ended), 50)}

    tell(story)


# --- deliveries ---------------------------------------------------------------------------------


def test_a_delivery_closes_its_job_alone_and_counts_on(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        jobs = [job(0, "en"), job(0, "fr")]
        await records.opened(held(), jobs, next_chunk_seq=0, next_utterance_index=1)
        assert (await stored(records)).next_delivery_seq == 1
        await records.delivered(held(), [delivery(1, 0, "fr")])
        record = await stored(records)
        assert record.open_jobs == (job(0, "en"),)
        assert record.unacknowledged == (delivery(1, 0, "fr"),)
        assert record.next_delivery_seq == 2
        both = [delivery(2, 0, "en", "JOB_TIMEOUT"), delivery(3, 1)]
        await records.delivered(held(), both)
        record = await stored(records)
        assert record.unacknowledged == (delivery(1, 0, "fr"), *both)
        assert record.next_delivery_seq == 4

    tell(story)


def test_a_delivery_stored_twice_is_one_delivery(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for _ in range(2):
            await records.delivered(held(), [delivery(1, 0), delivery(2, 1)])
        record = await stored(records)
        assert record.unacknowledged == (delivery(1, 0), delivery(2, 1))
        assert record.next_delivery_seq == 3

    tell(story)


def test_what_is_acknowledged_is_let_go_up_to_its_number(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.delivered(held(), [delivery(seq, seq - 1) for seq in (1, 2, 3)])
        await records.acknowledged(held(), 2)
        assert (await stored(records)).unacknowledged == (delivery(3, 2),)
        await records.acknowledged(held(), 1)
        assert (await stored(records)).unacknowledged == (delivery(3, 2),)
        await records.acknowledged(held(), 99)
        record = await stored(records)
        assert (record.unacknowledged, record.next_delivery_seq) == ((), 4)

    tell(story)


def test_unacknowledged_deliveries_are_bounded_and_the_newest_stay(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for seq in range(1, 20):
            await records.delivered(held(), [delivery(seq, seq - 1)])
        record = await stored(records)
        kept = [entry for entry in record.unacknowledged if entry.reason is None]
        assert kept == [delivery(seq, seq - 1) for seq in range(20 - KEEP_DELIVERED, 20)]
        assert record.next_delivery_seq == 20

    tell(story)


def test_of_what_was_dropped_is_known_that_it_was_sent(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.delivered(held(), [delivery(1, 0), delivery(2, 0, "fr", "JOB_TIMEOUT")])
        for seq in range(3, 3 + KEEP_DELIVERED):
            await records.delivered(held(), [delivery(seq, seq)])
        marks = (await stored(records)).unacknowledged[:2]
        assert marks == (
            delivery(1, 0, reason=RateLimited.code),
            delivery(2, 0, "fr", "JOB_TIMEOUT"),
        )
        await records.acknowledged(held(), 1)
        assert (await stored(records)).unacknowledged[0] == marks[1]
        await records.acknowledged(held(), 3)
        assert (await stored(records)).unacknowledged[0] == delivery(4, 4)

    tell(story)


def test_what_was_dropped_is_restored_with_the_rest(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for seq in range(1, 2 * KEEP_DELIVERED):
            await records.delivered(held(), [delivery(seq, seq)])
        record = await stored(records)
        await records.forget(SESSION, owner())
        assert await records.restore(record)
        assert await stored(records) == record
        long = tuple(delivery(seq, seq) for seq in range(1, 2 * KEEP_DELIVERED))
        newer = msgspec.structs.replace(record, revision=record.revision + 1, unacknowledged=long)
        assert await records.restore(newer)
        assert (await stored(records)).unacknowledged == record.unacknowledged

    tell(story)


def test_even_of_what_was_dropped_only_so_much_is_remembered(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        for seq in range(1, 200, KEEP_DELIVERED):
            some = [delivery(seq + each, seq + each) for each in range(KEEP_DELIVERED)]
            await records.delivered(held(), some)
        numbers = [entry.delivery_seq for entry in (await stored(records)).unacknowledged]
        assert numbers == list(range(201 - 17 * KEEP_DELIVERED, 201))

    tell(story)


# --- the end ------------------------------------------------------------------------------------


def test_a_forgotten_session_is_gone_and_others_stay(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        await records.create(new_record(SessionId("s-2")))
        assert await records.forget(SESSION, owner())
        assert not await records.forget(SESSION, owner())
        assert await records.read(SESSION) is None
        assert await records.take(SESSION, HERE, FIRST) is None
        assert await records.read(SessionId("s-2")) == new_record(SessionId("s-2"))
        assert await records.count() == 1

    tell(story)


def test_half_a_sample_goes_with_the_chunk_that_is_next(tell: Tell) -> None:
    async def story(records: SessionRecords) -> None:
        await records.create(new_record())
        numbers = {"next_utterance_index": 1}
        await records.opened(held(1), [], next_chunk_seq=3, half_sample=b"\xff", **numbers)
        assert (await stored(records)).half_sample == b"\xff"
        await records.opened(held(1), [], next_chunk_seq=3, half_sample=b"", **numbers)
        assert (await stored(records)).half_sample == b"\xff", "no chunk came in between"
        taken = await records.take(SESSION, THERE, SECOND)
        assert isinstance(taken, Taken)
        assert taken.record.half_sample == b"\xff"
        await records.opened(held(2), [], next_chunk_seq=4, half_sample=b"", **numbers)
        assert (await stored(records)).half_sample == b""
        again = msgspec.structs.replace(await stored(records), revision=99, half_sample=b"\0")
        assert await records.restore(again)
        assert await stored(records) == again

    tell(story)
