"""Whatever answers are lost, doubled or late: the client hears every end once, and it is stored.

Seeded schedules; a failure names its seed.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.unit.live.sessions.unreliable import (
    Unreliable,
    forget_everything,
    go_back,
    memory_of,
    shared_ledger,
)
from tests.unit.live.sessions.writing import Writing

from dragoman.live.shared import records as r
from dragoman.testing import VirtualClock, run_virtual

TARGETS = (("en",), ("en", "es"), ("en", "es", "fi"))
SCHEDULES = 60


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_the_client_hears_every_end_once_and_in_order(seed: int) -> None:
    run_virtual(lambda: Schedule(seed, forgets=False).act(), seed=seed)


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_also_where_the_server_loses_what_it_confirmed(seed: int) -> None:
    run_virtual(lambda: Schedule(seed, forgets=True).act(), seed=seed)


class Schedule:
    """One session's life over an unreliable ledger."""

    def __init__(self, seed: int, *, forgets: bool) -> None:
        self.random = random = Random(seed)
        clock = VirtualClock(asyncio.get_running_loop())
        shards = self.shards = Unreliable(shared_ledger(clock, random), random)
        shards.longest_seconds = random.choice((0.0, 0.01, 0.3))
        shards.loses = random.choice((0.0, 0.1, 0.4))
        shards.repeats = random.choice((0.0, 0.3))
        self.session = Writing(shards, random, *random.choice(TARGETS))
        self.session.forgets = self.forgets = forgets
        self.heard = 0

    async def act(self) -> None:
        random, session = self.random, self.session
        await session.begin()
        utterances = random.randint(5, 30)
        old = memory_of(self.shards.ledger)
        for _ in range(utterances):
            await asyncio.sleep(random.choice((0.0, 0.0, 0.05, 0.5)))
            refused = random.random() < 0.2
            session.say(without_job=(random.choice(session.targets),) if refused else ())
            draw = random.random()
            if draw < 0.2:
                self.acknowledge()
            elif draw < 0.3:
                await self.come_back()
            elif draw < 0.4 and self.forgets:
                if random.random() < 0.3:
                    forget_everything(self.shards.ledger)
                else:
                    go_back(self.shards.ledger, old)
            elif draw < 0.6:
                old = memory_of(self.shards.ledger)
        ends = utterances * len(session.targets)
        self.shards.loses = self.shards.repeats = 0.0
        await session.until_told(ends)
        session.check_told()
        assert len(session.told) == ends
        self.acknowledge()
        await session.until_idle()
        assert await session.writer.check()
        assert session.lost_to == []
        assert session.writer.known() == await session.stored()
        assert (await session.stored()).open == ()

    def acknowledge(self) -> None:
        told = len(self.session.told)
        self.heard = self.random.randint(self.heard, told)
        self.session.writer.acknowledge(self.heard)

    async def come_back(self) -> None:
        """The client goes on over another connection, at the same instance."""
        session, ledger = self.session, self.shards.ledger
        writer = session.writer
        record = await ledger.read_session(session.session_id)
        if record is None or not writer.is_ours(record.owner):
            return
        if writer.is_newer_than(record):
            return
        connection_id = session.connection_id()
        writer.expect(connection_id)
        taken = await ledger.take_session(
            session.session_id,
            record.owner.instance_id,
            connection_id,
            epoch=record.owner.epoch,
        )
        assert isinstance(taken, r.TakenSession)
        await asyncio.sleep(self.random.choice((0.0, 0.2)))
        writer.own(taken.session.owner, taken.session.revision)
