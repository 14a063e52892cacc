"""What a refused write to a session's record means, and what is done about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from dragoman.ids import ConnectionId, InstanceId, SessionId, TenantId
from dragoman.live.protocol import SchedulerToClient, SessionInit
from dragoman.live.sessions import MemoryRecords, SessionOwner, SessionRecord
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


class Stage:
    """A session here, and its record."""

    def __init__(self) -> None:
        self.records = MemoryRecords(10)
        self.client = Client(RECORD.owner)
        self.client.link = Silent()
        self.lost: list[SessionOwner] = []
        self.restored = 0
        self.hold = Hold(
            SESSION,
            self.records,
            self.client,
            compose=lambda: msgspec.structs.replace(RECORD, owner=self.client.owner),
            on_lost=self.lost.append,
            on_restored=self._count,
        )

    def _count(self) -> None:
        self.restored += 1


def play(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Stage())

    asyncio.run(main())


def test_a_record_that_is_gone_is_written_again() -> None:
    async def story(stage: Stage) -> None:
        assert await stage.hold.regain()
        assert await stage.records.read(SESSION) == RECORD
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


def test_a_resume_here_whose_answer_was_lost_is_heard_of_later() -> None:
    async def story(stage: Stage) -> None:
        await stage.records.create(RECORD)
        stage.client.connections.add(SECOND)
        await stage.records.take(SESSION, HERE, SECOND)
        assert await stage.hold.regain()
        assert stage.client.epoch == 2
        assert not stage.lost

    play(story)


def test_another_process_of_the_same_name_is_somebody_else() -> None:
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
