"""What is carried out late, or told late, takes no work from a node that is well."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.world import World, play

from dragoman.errors import DependencyDown
from dragoman.live.ledger import Heartbeat, Ledger
from dragoman.live.protocol import JobCancel, Outcome
from dragoman.testing import seconds

ACK_SECONDS = 3.0


class HoldsHeartbeats:
    """A ledger that seems to be down to heartbeats, and carries them out when it is let go on."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.holds = False
        self._held: list[tuple[int, Heartbeat]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def beat(self, cell: int, heartbeat: Heartbeat) -> Any:
        if self.holds:
            self._held.append((cell, heartbeat))
            raise DependencyDown("The ledger did not answer.")
        return await self._ledger.beat(cell, heartbeat)

    async def go_on(self) -> None:
        """Carry out what was held, though its asker does not wait for it any more."""
        self.holds = False
        for cell, heartbeat in self._held:
            await self._ledger.beat(cell, heartbeat)


def test_a_heartbeat_carried_out_late_does_not_take_the_job_that_was_acknowledged_after_it() -> (
    None
):
    slow: list[HoldsHeartbeats] = []

    def wrap(ledger: Ledger) -> Ledger:
        slow.append(HoldsHeartbeats(ledger))
        return cast(Ledger, slow[0])

    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(4))
        spare = await world.node("spare", slots=1)
        slow[0].holds = True
        await node.beat()
        job = await world.submit("r", preferred_node_id="n")
        await world.until(lambda: bool(node.working))
        await world.pass_time(0.1)
        await slow[0].go_on()
        assert await world.held() == 1, "the node works on it, in its slot"
        other = await world.submit("other", preferred_node_id="n", may_wait=True)
        record = await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert [past.node_id for past in record.attempts] == ["n"]
        assert (await other.end()).outcome is Outcome.SUCCESS
        assert job.job_id not in {assign.job_id for assign in spare.assigned}
        assert (node.over_limit, node.high_water) == (0, 1)

    play(story, wrap=wrap)


def test_a_driver_that_is_slow_between_slot_and_node_costs_a_second_try_and_nothing_else() -> None:
    """The node's time to acknowledge runs from the slot on: a slow driver uses it up.

    Then the sweep of another instance gives the job to another node, though the first has only
    just taken it. That is what at least once means; the job still ends once.
    """

    async def story(world: ClusterWorld) -> None:
        first = await world.node("first", at="b", slots=1, service=seconds(20), acks=False)
        # Its acknowledgement is on its way; a heartbeat will tell as much.
        driver = cast(Any, world["a"].ledger)
        bind = driver.bind

        async def bind_late(*args: Any, **options: Any) -> Any:
            driver.bind = bind
            await asyncio.sleep(ACK_SECONDS - 0.2)
            return await bind(*args, **options)

        driver.bind = bind_late
        job = await world.submit("a", "r", may_wait=True)
        second = await world.node("second", at="b", slots=1, service=seconds(0.5))
        await world.until(lambda: bool(first.assigned))
        took_at = world.clock.monotonic()
        await world.until(lambda: bool(second.assigned))
        assert world.clock.monotonic() - took_at < 1.0
        assert first.assigned[0].job_id == second.assigned[0].job_id == job.job_id
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert len(job.ends) == 1
        assert [past.node_id for past in record.attempts] == ["first", "second"]
        assert any(isinstance(message, JobCancel) for message in first.heard)
        await world.pass_time(5)
        assert await world.held() == 0
        assert first.over_limit == second.over_limit == 0

    play_together(story, scheduler__job_timeout__ack_seconds=ACK_SECONDS)
