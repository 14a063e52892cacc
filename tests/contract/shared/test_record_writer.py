"""A session's writer over every backend: what the client hears is what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.contract.shared.bench import HERE, KEEP, Bench
from tests.unit.live.sessions.unreliable import KEEP_DELIVERED, Unreliable
from tests.unit.live.sessions.writing import Writing

from dragoman.ids import JobId
from dragoman.live.shared import records as r

NO_JOB = r.OpenUtterance(0, "en", JobId(""))


def test_an_utterance_without_a_job_is_open_until_the_reason_took_its_turn(bench: Bench) -> None:
    held = bench.begin("en", "es")
    opening = r.UtteranceOpening((), HERE, 5_000, KEEP, held, (NO_JOB,))
    assert isinstance(bench(bench.ledger.open(opening)), r.Opened)
    assert bench.session(held).open == (NO_JOB,)
    entry = r.Delivery(0, "en", None, "NO_CAPACITY")
    assert bench.deliver(held, entry) == (1,)
    assert bench.deliver(held, entry) == (1,)
    assert bench.session(held).open == ()
    assert bench.session(held).unacknowledged == (r.SentDelivery(1, entry),)


def test_a_client_hears_every_end_once_though_answers_are_lost(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(keep_delivered=KEEP_DELIVERED)
    shards = Unreliable(bench.ledger, bench.random)  # type: ignore[arg-type]
    session = Writing(shards, bench.random, "en", "es")
    session.forgets = True
    shards.loses = shards.repeats = 0.2

    async def story() -> None:
        await session.begin()
        for number in range(8):
            session.say(without_job=("es",) if number % 3 == 0 else ())
            session.writer.acknowledge(len(session.told) // 2)
            await asyncio.sleep(0.02)
        await session.until_told(16)
        shards.loses = shards.repeats = 0.0
        await session.until_idle()
        session.check_told()
        assert await session.writer.check()
        assert session.writer.known() == await session.stored()

    bench(story())
