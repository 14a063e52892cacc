"""Nodes that are long gone are forgotten, and no others are, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.simulation.world import World, play

from dragoman.live.protocol import Outcome
from dragoman.live.shared import SharedLedger

FORGET_SECONDS = 100


class SlowToForget:
    """A ledger that takes a node from its seat at once, and then holds the rest back."""

    def __init__(self, ledger: SharedLedger) -> None:
        self._ledger = ledger
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def forget(self, *arguments: Any) -> Any:
        self.asked.set()
        await self.go_on.wait()
        return await self._ledger.forget(*arguments)


def slow_to_forget(found: list[SlowToForget]) -> Any:
    def wrap(ledger: SharedLedger) -> SharedLedger:
        found.append(SlowToForget(ledger))
        return cast(SharedLedger, found[0])

    return wrap


def test_a_node_that_comes_back_while_others_are_forgotten_is_not() -> None:
    ledgers: list[SlowToForget] = []

    async def story(world: World) -> None:
        gone, back = await world.node("gone"), await world.node("back")
        gone.cut()
        await world.pass_time(0.1)
        back.cut()
        await ledgers[0].asked.wait()
        await back.connect()
        await world.pass_time(0.1)
        ledgers[0].go_on.set()
        await world.pass_time(0.1)
        assert (await (await world.submit("r")).end()).outcome is Outcome.SUCCESS
        assert [node.node_id for node in world.plane.registry.nodes()] == ["back"]

    play(
        story,
        wrap=slow_to_forget(ledgers),
        scheduler__node_health__forget_offline_seconds=FORGET_SECONDS,
    )


def test_a_node_that_takes_the_seat_of_one_that_is_being_forgotten_is_seen() -> None:
    ledgers: list[SlowToForget] = []

    async def story(world: World) -> None:
        (await world.node("gone")).cut()
        await ledgers[0].asked.wait()
        await world.node("new")
        ledgers[0].go_on.set()
        await world.pass_time(0.1)
        assert (await (await world.submit("r")).end()).outcome is Outcome.SUCCESS

    play(
        story,
        wrap=slow_to_forget(ledgers),
        scheduler__node_health__forget_offline_seconds=FORGET_SECONDS,
    )
