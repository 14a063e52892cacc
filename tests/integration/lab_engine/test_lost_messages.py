"""Hints between scheduler and worker may be lost, every one of them: it costs time, never work."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import pytest
from tests.integration.lab_engine.laboratory import QUICK, TENANT, add_items, laboratory

from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import ExperimentSpec, RunId, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.queue import HintTopic, InProcessQueue, ItemOffer
from dragoman.lab.roles import EMBEDDED, SERVER, LabRole
from dragoman.lab.states import RunMode, RunStatus

Hint = TypeVar("Hint", bound=Hashable)


class LossyTopic(Generic[Hint]):
    """A topic that loses the messages that the queue wants lost."""

    def __init__(self, queue: LossyQueue, topic: HintTopic[Hint]) -> None:
        self._queue = queue
        self._topic = topic

    def put(self, hint: Hint) -> None:
        if not self._queue.loses_next():
            self._topic.put(hint)

    async def take(self) -> Sequence[Hint]:
        return await self._topic.take()


class LossyQueue:
    """Loses one message, by its number, of all that are given."""

    gives_offers_once = False

    def __init__(self, lost: int | None) -> None:
        self._lost = lost
        self.given = 0
        whole = InProcessQueue()
        self.offers: LossyTopic[ItemOffer] = LossyTopic(self, whole.offers)
        self.stops: LossyTopic[RunId] = LossyTopic(self, whole.stops)
        self.news: LossyTopic[RunId] = LossyTopic(self, whole.news)
        self.changes = whole.changes

    async def take_offers(self, items: int) -> Sequence[ItemOffer]:
        return await self.offers.take()

    async def close(self) -> None:
        """Nothing is open."""

    def loses_next(self) -> bool:
        self.given += 1
        return self.given == self._lost


async def shout(text: str) -> str:
    return text.upper()


async def run_losing(url: str, lost: int | None, role: LabRole) -> int:
    """Run an experiment twice while one message is lost; how many messages there were."""
    queue = LossyQueue(lost)
    context = Context(functions={"shout": shout})
    settings = QUICK.model_copy(update={"lease_seconds": 60.0, "item_concurrency": 2})
    async with laboratory(url, settings, context=context, role=role, queue=queue) as at:
        version, _ = await add_items(at.store, [[{"text": f"t{n}"}] for n in range(3)])
        spec = ExperimentSpec(f"loses {lost}", version, TargetSpec("python", {"function": "shout"}))
        made, started = await at.lab.experiments.submit(TENANT, spec)
        assert await at.ended(started.run_id) is RunStatus.SUCCESS, f"message {lost} was lost"
        again = StartAsk(RunMode.RETRY_ALL)
        started = await at.lab.experiments.start(TENANT, made.experiment_id, again)
        assert await at.ended(started.run_id) is RunStatus.SUCCESS, f"message {lost} was lost"
        stats = (await at.lab.experiments.show(TENANT, made.experiment_id)).stats
        assert stats.success == stats.items == 3
    return queue.given


# Messages are above the database, so that not every role is tried on every one. A run that waits
# for a lost message asks the database anew, and a server asks most.
@pytest.mark.parametrize(
    ("database_url", "role"),
    [("sqlite", EMBEDDED), ("sqlite", SERVER), ("postgresql", SERVER)],
    indirect=["database_url"],
    ids=["sqlite-embedded", "sqlite-server", "postgresql-server"],
)
def test_any_one_message_may_be_lost(database_url: str, role: LabRole) -> None:
    async def story() -> None:
        given = await run_losing(database_url, None, role)
        for lost in range(1, given + 1):
            await run_losing(database_url, lost, role)

    asyncio.run(story())
