"""Messages are hints: lost, doubled or reordered, they change nothing, on any queue."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from random import Random
from typing import Any, Generic, TypeVar

import pytest
from tests.chaos_seeds import chaos_seeds
from tests.contract.lab_queue.conftest import Place
from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    add_items,
    experiment,
    laboratory,
    read,
)

from dragoman.lab.queue import HintTopic, ItemOffer, Queue
from dragoman.lab.states import RunStatus

Hint = TypeVar("Hint", bound=Hashable)

ITEMS = 30
SETTINGS = QUICK.model_copy(update={"lease_seconds": 60.0})
"""No lease runs out here: only messages go astray."""


class UnreliableTopic(Generic[Hint]):
    """Loses a third of the hints, doubles a third, and gives them in any order."""

    def __init__(self, topic: HintTopic[Hint], random: Random) -> None:
        self._topic = topic
        self._random = random
        self._late: list[Hint] = []

    def put(self, hint: Hint) -> None:
        self._late += [hint] * self._random.choice((0, 1, 2))
        self._random.shuffle(self._late)
        while self._late and self._random.random() < 0.7:
            self._topic.put(self._late.pop())

    async def take(self) -> Sequence[Hint]:
        taken = [
            one for one in await self._topic.take() for _ in range(self._random.choice((1, 2)))
        ]
        self._random.shuffle(taken)
        return taken


class UnreliableQueue:
    """A queue whose server does as it likes."""

    def __init__(self, queue: Queue, random: Random) -> None:
        self.offers = UnreliableTopic(queue.offers, random)
        self.stops = UnreliableTopic(queue.stops, random)
        self.news = UnreliableTopic(queue.news, random)
        self.changes = UnreliableTopic(queue.changes, random)
        self.gives_offers_once = queue.gives_offers_once

    async def take_offers(self, items: int) -> Sequence[ItemOffer]:
        return await self.offers.take()

    async def close(self) -> None:
        """Its server is closed by the test."""


@pytest.mark.parametrize("seed", chaos_seeds(3, first=20_261_116))
def test_lost_doubled_and_reordered_messages_change_nothing(
    place: Place, seed: int, tmp_path: Any
) -> None:
    random = Random(seed)
    calls = str(tmp_path / "calls")

    async def story() -> None:
        async with place.queues("scheduler", "worker", "other") as ends:
            queues = [UnreliableQueue(end, random) for end in ends]
            async with (
                laboratory(place.database_url, SETTINGS, works=False, queue=queues[0]) as at,
                laboratory(place.database_url, SETTINGS, schedules=False, queue=queues[1]),
                laboratory(place.database_url, SETTINGS, schedules=False, queue=queues[2]),
            ):
                items = [[{"key": f"k{number}", "calls": calls}] for number in range(ITEMS)]
                version, _ = await add_items(at.store, items)
                spec = experiment(version, "answer_unless_held", {"judge": "judge_noting"})
                _, started = await at.lab.experiments.submit(TENANT, spec)
                assert await at.ended(started.run_id) is RunStatus.SUCCESS
                shown = await read(
                    at.store, "SELECT status, COUNT(*) FROM item_result GROUP BY status"
                )
                assert shown == [("success", ITEMS)]
                tries = await read(at.store, "SELECT try_no, result_state FROM item_run_log")
                assert tries == [(1, "resulted")] * ITEMS, "every item was carried out once"

    asyncio.run(story())
