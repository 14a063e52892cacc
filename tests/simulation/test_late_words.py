"""What is carried out late, or told late, takes no work from a node that is well."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.world import World, play

from dragoman.errors import DependencyDown
from dragoman.live.ledger import Heartbeat
from dragoman.live.protocol import Outcome
from dragoman.live.shared import SharedLedger
from dragoman.live.shared.records import SlotAsk
from dragoman.testing import seconds

ACK_SECONDS = 3.0


class HoldsHeartbeats:
    """A ledger that seems to be down to heartbeats, and carries them out when it is let go on."""

    def __init__(self, ledger: SharedLedger) -> None:
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

    def wrap(ledger: SharedLedger) -> SharedLedger:
        slow.append(HoldsHeartbeats(ledger))
        return cast(SharedLedger, slow[0])

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


def test_a_slot_that_was_granted_too_long_ago_is_given_back_and_its_node_told_nothing() -> None:
    """The node's time to acknowledge runs from the slot on: a slow driver uses it up."""

    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=1, service=seconds(0.5))
        shared = cast(Any, world["a"].ledger).shared
        reserve, late = shared.reserve, []

        async def reserve_late(ask: SlotAsk) -> Any:
            shared.reserve = reserve
            granted = await reserve(ask)
            late.append(ask.attempt_id)
            await asyncio.sleep(ACK_SECONDS + 0.2)
            return granted

        shared.reserve = reserve_late
        job = await world.submit("a", "r", may_wait=True)
        record = await job.end()
        assert (record.outcome, len(job.ends)) == (Outcome.SUCCESS, 1)
        assert len(late) == 1
        assert late[0] not in {assign.attempt_id for assign in node.assigned}
        assert len(node.assigned) == 1
        await world.pass_time(5)
        assert await world.held() == 0
        assert node.over_limit == 0

    play_together(story, scheduler__job_timeout__ack_seconds=ACK_SECONDS)
