"""Of steps that a node says close together the ledger hears one, and of a quick job none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from dragoman.ids import AttemptId, NodeId
from dragoman.live.dispatch.steps import Said, Steps
from dragoman.live.ledger import Sender
from dragoman.live.protocol import AttemptState

ATTEMPT = AttemptId("a-1")
SENDER = Sender(NodeId("n-1"), 1)


class Listener:
    """Hears what is told to the ledger."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, AttemptState]] = []
        self.told = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def tell(self, said: Said) -> None:
        self.heard.append((said.sender.node_id, said.to))
        self.told.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))


def said(to: AttemptState, sender: Sender = SENDER) -> Said:
    return Said(0, sender, ATTEMPT, to, number=1, at=0.0)


def test_an_acknowledgement_and_a_start_close_together_are_told_as_one() -> None:
    async def live() -> None:
        listener = Listener()
        steps = Steps(listener.tell, listener.spawn)
        steps.say(said(AttemptState.ACCEPTED))
        steps.say(said(AttemptState.RUNNING))
        steps.say(said(AttemptState.ACCEPTED))
        await asyncio.wait_for(listener.told.wait(), 10)
        assert listener.heard == [("n-1", AttemptState.RUNNING)]

    asyncio.run(live())


def test_a_start_that_comes_later_is_told_by_itself() -> None:
    async def live() -> None:
        listener = Listener()
        steps = Steps(listener.tell, listener.spawn)
        steps.say(said(AttemptState.ACCEPTED))
        await asyncio.wait_for(listener.told.wait(), 10)
        listener.told.clear()
        steps.say(said(AttemptState.RUNNING))
        await asyncio.wait_for(listener.told.wait(), 10)
        assert [to for _, to in listener.heard] == [AttemptState.ACCEPTED, AttemptState.RUNNING]

    asyncio.run(live())


def test_a_result_spares_the_step_before_it() -> None:
    async def live() -> None:
        listener = Listener()
        steps = Steps(listener.tell, listener.spawn)
        step = said(AttemptState.RUNNING)
        steps.say(step)
        assert steps.over(ATTEMPT, SENDER) is step
        assert steps.over(ATTEMPT, SENDER) is None
        other = Sender(NodeId("n-2"), 1)
        steps.say(said(AttemptState.RUNNING, other))
        await asyncio.wait_for(listener.told.wait(), 10)
        assert listener.heard == [("n-2", AttemptState.RUNNING)]

    asyncio.run(live())


def test_what_another_node_says_of_the_attempt_hides_nothing() -> None:
    async def live() -> None:
        listener = Listener()
        steps = Steps(listener.tell, listener.spawn)
        other = Sender(NodeId("n-2"), 7)
        steps.say(said(AttemptState.ACCEPTED))
        steps.say(said(AttemptState.RUNNING, other))
        assert steps.over(ATTEMPT, other) is not None
        await asyncio.wait_for(listener.told.wait(), 10)
        assert listener.heard == [("n-1", AttemptState.ACCEPTED)]

    asyncio.run(live())
