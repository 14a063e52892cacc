"""Sessions whose record is older than what their client has heard.

The server that instances share came back with an old dump, or failed over to a replica that was
behind, and the session's owner was gone before it could write the record again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.errors import InvalidSession
from dragoman.live.protocol import SchedulerToClient, TranslationResult
from dragoman.sdk import SessionClient, SessionEvent, Unreachable
from dragoman.sdk.session.events import SessionOpened
from dragoman.testing import MemoryLink, MemorySessionConnect, seconds

TWO = ("es", "de")


class Caller:
    """Connects a client of the SDK to the instance that it may reach."""

    def __init__(self, world: ClusterWorld, at: str) -> None:
        self._world = world
        self.at = at
        self.events: list[SessionEvent] = []

    async def __call__(self) -> MemoryLink[SchedulerToClient]:
        instance = self._world.instances.get(self.at)
        if instance is None:
            raise Unreachable(f"{self.at} is gone")
        return await MemorySessionConnect(instance.network, instance.plane.session_endpoint)()

    def client(self, **options: Any) -> SessionClient:
        return SessionClient(
            self,
            src_lang="zh",
            tgt_langs=list(TWO),
            clock=self._world.clock,
            random=Random(1),
            on_event=self.events.append,
            **options,
        )

    @property
    def restarted(self) -> list[bool]:
        return [event.restarted for event in self.events if isinstance(event, SessionOpened)]


def by_turns(*times: float) -> Callable[[Random], float]:
    """The first job takes so long, the second so long, and so on."""
    left = iter(times)
    return lambda _: next(left)


async def lose_owner_and_memory(world: ClusterWorld, memory: Any, caller: Caller) -> None:
    """The server goes back to an old state, and the owner dies before it notices."""
    world.server.fail_over(memory)
    caller.at = "b"
    await world.kill("a")


def play(story: Callable[[ClusterWorld], Awaitable[None]]) -> None:
    async def act(world: ClusterWorld) -> None:
        both = ("zh", *TWO)
        await world.node("n", at="b", slots=8, service=seconds(0.3), nmt=both, tts=both)
        await story(world)

    play_together(act)


def test_a_client_goes_on_in_a_new_session_when_its_own_was_taken_back_to_an_earlier_time() -> None:
    async def story(world: ClusterWorld) -> None:
        caller = Caller(world, "a")
        async with caller.client(if_gone="restart") as session:
            await session.say("0")
            heard = [await session.next_result() for _ in TWO]
            old = world.server.memory()
            for number in range(1, 4):
                await session.say(f"{number}")
                heard += [await session.next_result() for _ in TWO]
            await lose_owner_and_memory(world, old, caller)
            await session.say("4")
            await session.close()
            heard += [result async for result in session.results()]
        assert all(isinstance(result, TranslationResult) for result in heard)
        ends = [(result.utterance_index, result.tgt_lang) for result in heard if result]
        assert sorted(ends) == sorted((index, target) for index in range(5) for target in TWO)
        assert caller.restarted == [False, True]

    play(story)


def test_a_client_that_wants_to_know_is_told_that_its_session_is_gone() -> None:
    async def talk(world: ClusterWorld, caller: Caller) -> None:
        async with caller.client() as session:
            old = world.server.memory()
            for number in range(2):
                await session.say(f"{number}")
                for _ in TWO:
                    await session.next_result()
            await lose_owner_and_memory(world, old, caller)
            await session.say("2")
            await session.next_result()

    async def story(world: ClusterWorld) -> None:
        with pytest.raises(InvalidSession):
            await talk(world, Caller(world, "a"))

    play(story)


@pytest.mark.parametrize("later", [0, 1])
def test_no_end_is_lost_or_told_twice_where_several_targets_went_back(later: int) -> None:
    """The client heard one end more than the record knows, of a known or an unknown utterance."""

    async def story(world: ClusterWorld) -> None:
        caller = Caller(world, "a")
        fast = world.nodes["n"]
        fast.behaviour.service = by_turns(0.3, 60.0)
        async with caller.client(if_gone="restart") as session:
            await session.say("0")
            await world.until(lambda: len(fast.working) == len(TWO))
            old = world.server.memory()
            heard = [await session.next_result()]
            if later:
                fast.behaviour.service = by_turns(0.3, 60.0)
                await session.say("1")
                await world.pass_time(5)
            await lose_owner_and_memory(world, old, caller)
            fast.behaviour.service = seconds(0.3)
            await session.say("more")
            await session.close()
            heard += [result async for result in session.results()]
        ends = [(result.utterance_index, result.tgt_lang) for result in heard if result]
        wanted = [(index, target) for index in range(2 + later) for target in TWO]
        assert sorted(ends) == sorted(wanted)

    play(story)


def test_a_client_that_feeds_audio_goes_on_when_the_scheduler_forgot_stored_chunks() -> None:
    async def story(world: ClusterWorld) -> None:
        caller = Caller(world, "a")
        world.nodes["n"].behaviour.service = seconds(60)
        async with caller.client(if_gone="restart") as session:
            old = world.server.memory()
            await session.feed(bytes(3200), final=True)
            # Until the client knows that its chunk was stored, and forgets it.
            speech = session._dialogue.in_chunks()
            await world.until(lambda: not speech.kept_bytes)
            await lose_owner_and_memory(world, old, caller)
            world.nodes["n"].behaviour.service = seconds(0.3)
            await session.feed(bytes(3200), final=True)
            heard = [await session.next_result() for _ in TWO]
        assert all(isinstance(result, TranslationResult) for result in heard)
        assert caller.restarted == [False, True]

    play(story)
