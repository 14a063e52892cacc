"""What a session does when a write to its record is refused, lost or answered oddly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from dragoman.errors import DependencyDown
from dragoman.ids import ConnectionId, InstanceId, SessionId, TenantId
from dragoman.live.protocol import SchedulerToClient, SessionInit
from dragoman.live.sessions import Delivered, Holding, MemoryRecords, SessionOwner, SessionRecord
from dragoman.live.sessions.hold import Hold
from dragoman.live.sessions.tools import Client

SESSION = SessionId("s-1")
HERE, THERE = InstanceId("here"), InstanceId("there")
FIRST, SECOND = ConnectionId("c-1"), ConnectionId("c-2")
RECORD = SessionRecord(
    SESSION,
    TenantId("red"),
    "hash",
    SessionInit(src_lang="zh", tgt_lang="en"),
    SessionOwner(HERE, FIRST, 1),
    next_utterance_index=3,
)


class Silent:
    """A connection that only exists."""

    id = FIRST

    def send(self, message: SchedulerToClient) -> bool:
        return True

    def superseded(self) -> None: ...

    def timed_out(self) -> None: ...

    def overrun(self, reason: str) -> None: ...

    def finished(self) -> None: ...

    def draining(self) -> None: ...

    def ended(self) -> None: ...


class Stage:
    """A session here, and its record."""

    def __init__(self) -> None:
        self.records = MemoryRecords(10)
        self.client = Client(RECORD.owner)
        self.client.link = Silent()
        self.lost: list[SessionOwner] = []
        self.restored = self.doubts = 0
        self.known = RECORD
        """What the session knows to be stored."""
        self.hold = Hold(
            RECORD,
            self.records,
            self.client,
            compose=self._compose,
            on_lost=self.lost.append,
            on_restored=self._restored,
            on_doubt=self._doubt,
        )

    async def deliver(self, seq: int) -> bool:
        """Store an end; it is known to be stored when that is confirmed."""
        entry = Delivered(seq, seq, "en", None)
        if not await self.hold.write(lambda held: self.records.delivered(held, [entry])):
            return False
        self.known = msgspec.structs.replace(
            self.known,
            next_delivery_seq=seq + 1,
            unacknowledged=(*self.known.unacknowledged, entry),
            ended={"en": seq},
        )
        return True

    async def fail_over(self, record: SessionRecord) -> None:
        """What keeps the record is as it was at an earlier time."""
        self.records._kept.clear()
        await self.records.restore(record)

    async def stored(self) -> SessionRecord:
        record = await self.records.read(SESSION)
        assert record is not None
        return record

    def _compose(self) -> SessionRecord:
        seen = self.hold.holding.seen
        return msgspec.structs.replace(self.known, owner=self.client.owner, revision=seen)

    def _restored(self) -> None:
        self.restored += 1

    def _doubt(self) -> None:
        self.doubts += 1


def play(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Stage())

    asyncio.run(main())


def test_a_record_that_is_gone_is_written_again() -> None:
    async def story(stage: Stage) -> None:
        assert await stage.hold.regain()
        assert await stage.stored() == msgspec.structs.replace(RECORD, revision=2)
        assert (stage.restored, stage.lost) == (1, [])

    play(story)


def test_without_its_client_a_session_does_not_write_its_record_again() -> None:
    async def story(stage: Stage) -> None:
        stage.client.link = None
        assert not await stage.hold.regain()
        assert await stage.records.read(SESSION) is None

    play(story)


def test_a_session_that_another_instance_owns_is_lost() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        await stage.records.take(SESSION, THERE, SECOND)
        assert not await stage.hold.regain()
        assert stage.lost == [SessionOwner(THERE, SECOND, 2)]

    play(story)


def test_a_session_that_another_had_since_is_lost_though_its_client_is_coming_back() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        stage.client.connections.add(SECOND)
        await stage.records.take(SESSION, THERE, ConnectionId("c-3"))
        await stage.records.take(SESSION, HERE, SECOND)
        assert not await stage.deliver(1), "what is known here is older than the record"
        assert stage.lost == [SessionOwner(HERE, SECOND, 3)]

    play(story)


def test_a_resume_here_whose_answer_was_lost_is_heard_of_later() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        stage.client.connections.add(SECOND)
        await stage.records.take(SESSION, HERE, SECOND)
        assert await stage.hold.regain()
        assert stage.client.epoch == 2
        assert not stage.lost

    play(story)


def test_another_process_of_the_same_name_is_another_owner() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        await stage.records.take(SESSION, HERE, SECOND)
        assert not await stage.hold.regain()
        assert stage.lost == [SessionOwner(HERE, SECOND, 2)]

    play(story)


def test_a_record_that_a_newer_owner_wrote_meanwhile_is_left_alone() -> None:
    async def story(stage: Stage) -> None:
        newer = msgspec.structs.replace(RECORD, owner=SessionOwner(THERE, SECOND, 2))
        read = stage.records.read

        async def read_too_early(session_id: SessionId) -> SessionRecord | None:
            found = await read(session_id)
            await stage.records.restore(newer)
            return found

        stage.records.read = read_too_early  # type: ignore[method-assign]
        assert not await stage.hold.regain()
        assert await read(SESSION) == newer
        assert stage.lost == [newer.owner]

    play(story)


def test_a_record_that_is_gone_is_written_again_for_a_client_that_returns() -> None:
    async def story(stage: Stage) -> None:
        stage.client.link = None
        assert await stage.hold.regain(returning=True)
        assert stage.restored == 1

    play(story)


# --- a record that was taken back ----------------------------------------------------------------


def test_a_write_finds_out_that_earlier_ones_are_lost_and_makes_them_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        assert await stage.deliver(1)
        earlier = await stage.stored()
        assert await stage.deliver(2)
        await stage.fail_over(earlier)
        assert await stage.deliver(3)
        assert [entry.delivery_seq for entry in (await stage.stored()).unacknowledged] == [1, 2, 3]
        assert stage.restored == 1

    play(story)


def test_a_session_without_its_client_makes_its_own_record_whole_too() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        assert await stage.deliver(1)
        await stage.fail_over(RECORD)
        stage.client.link = None
        assert await stage.hold.regain()
        assert (await stage.stored()).unacknowledged == stage.known.unacknowledged

    play(story)


def test_a_write_that_landed_on_what_was_taken_back_is_no_proof() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        on_its_way = stage.hold.holding
        assert await stage.deliver(1)
        await stage.fail_over(RECORD)

        async def acknowledge(held: Holding) -> int:
            # The first time as it was sent before the other was confirmed.
            first, tries[:] = not tries, [held]
            return await stage.records.acknowledged(on_its_way if first else held, 0)

        tries: list[Holding] = []
        assert await stage.hold.write(acknowledge)
        assert (await stage.stored()).unacknowledged == stage.known.unacknowledged
        assert (stage.doubts, stage.restored) == (1, 1)

    play(story)


def test_answers_may_overtake_each_other() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        held_up = asyncio.Event()

        async def slow(held: Holding) -> int:
            answer = await stage.records.acknowledged(held, 0)
            await held_up.wait()
            return answer

        async with asyncio.TaskGroup() as group:
            writes = [group.create_task(stage.hold.write(slow)) for _ in range(3)]
            await asyncio.sleep(0)
            assert await stage.deliver(1)
            held_up.set()
        assert all(write.result() for write in writes)
        assert (stage.doubts, stage.restored) == (0, 0)

    play(story)


def test_a_write_that_may_be_in_the_place_of_another_has_the_whole_record_written() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)

        async def unheard(held: Holding) -> int:
            assert await stage.deliver(1)
            await stage.fail_over(RECORD)
            await stage.records.acknowledged(held, 0)
            raise DependencyDown("There was no answer.")

        with pytest.raises(DependencyDown):
            await stage.hold.write(unheard)
        assert (await stage.stored()).revision == stage.hold.holding.seen
        assert stage.hold.doubtful
        assert await stage.deliver(2)
        assert (await stage.stored()).unacknowledged == stage.known.unacknowledged
        assert not stage.hold.doubtful

    play(story)


def test_what_is_written_again_undoes_no_write_that_is_on_its_way() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        assert await stage.deliver(1)
        earlier = await stage.stored()
        assert await stage.deliver(2)
        on_its_way = Holding(SESSION, RECORD.owner, earlier.revision)
        await stage.fail_over(earlier)
        restore, entry = stage.records.restore, Delivered(3, 3, "en", None)
        answers: list[int] = []

        async def restore_late(record: SessionRecord) -> int:
            if not answers:
                answers.append(await stage.records.delivered(on_its_way, [entry]))
            return await restore(record)

        stage.records.restore = restore_late  # type: ignore[method-assign]

        async def deliver(held: Holding) -> int:
            if answers:
                return await stage.records.delivered(held, [entry])
            await stage.hold.regain()
            return answers[0]

        assert await stage.hold.write(deliver)
        assert (await stage.stored()).next_delivery_seq == 4
        assert [each.delivery_seq for each in (await stage.stored()).unacknowledged] == [1, 2, 3]

    play(story)


def test_a_write_without_an_answer_alone_is_no_reason_to_write_the_record_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)

        async def unheard(held: Holding) -> int:
            await stage.records.acknowledged(held, 0)
            raise DependencyDown("There was no answer.")

        with pytest.raises(DependencyDown):
            await stage.hold.write(unheard)
        assert await stage.deliver(1)
        assert (stage.doubts, stage.restored) == (1, 0)

    play(story)
