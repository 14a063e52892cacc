"""A server starts, is ready, drains and stops, and never goes back."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from dragoman.api import TRANSITIONS, Lifecycle, ServerState
from dragoman.errors import DependencyDown, ServerDraining

WAY_TO = {
    ServerState.STARTING: (),
    ServerState.READY: (ServerState.READY,),
    ServerState.LEAVING: (ServerState.READY, ServerState.LEAVING),
    ServerState.DRAINING: (ServerState.READY, ServerState.DRAINING),
    ServerState.STOPPED: (ServerState.STOPPED,),
}


def server_that_is(state: ServerState) -> Lifecycle:
    lifecycle = Lifecycle()
    for step in WAY_TO[state]:
        lifecycle.move(step)
    return lifecycle


@pytest.mark.parametrize(("before", "after"), list(product(ServerState, ServerState)))
def test_only_the_moves_of_the_table_are_made(before: ServerState, after: ServerState) -> None:
    lifecycle = server_that_is(before)

    if after in TRANSITIONS[before]:
        lifecycle.move(after)
        assert lifecycle.state is after
    else:
        with pytest.raises(ValueError, match=f"a server that is {before} cannot become {after}"):
            lifecycle.move(after)
        assert lifecycle.state is before


def test_every_state_can_come_to_an_end() -> None:
    unfinished = {state for state in ServerState if ServerState.STOPPED not in TRANSITIONS[state]}

    assert unfinished == {ServerState.STOPPED}


def test_a_server_takes_work_until_it_drains() -> None:
    server_that_is(ServerState.READY).check_takes_work()
    server_that_is(ServerState.LEAVING).check_takes_work()

    with pytest.raises(DependencyDown, match="still starting"):
        server_that_is(ServerState.STARTING).check_takes_work()
    for state in (ServerState.DRAINING, ServerState.STOPPED):
        with pytest.raises(ServerDraining, match="takes no new work") as refused:
            server_that_is(state).check_takes_work()
        assert refused.value.retry_after_ms


def test_a_caller_that_waits_for_the_start_goes_on_when_the_server_is_ready() -> None:
    async def scenario() -> None:
        lifecycle = Lifecycle()
        waiting = asyncio.create_task(lifecycle.begun())
        await asyncio.sleep(0)
        assert not waiting.done()
        lifecycle.move(ServerState.READY)
        await waiting

    asyncio.run(scenario())
