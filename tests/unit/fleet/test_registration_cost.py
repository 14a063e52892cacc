"""What a registration costs: it grows with a node's languages, never with their pairs.

Calls are counted, of Python functions and of built-in ones, because a count is the same on every
machine. Time is not looked at.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from random import Random
from types import FrameType
from typing import Any, TypeVar

import pytest

from dragoman.auth import OpenAuthenticator
from dragoman.clock import SystemClock
from dragoman.ids import ConnectionId, InstanceId, NodeId, TenantId
from dragoman.live.dispatch.memory_ledger import MemoryLedger
from dragoman.live.fleet import Applicant
from dragoman.live.gateway import Connections, LivePlane, rules
from dragoman.live.protocol import (
    Device,
    Hardware,
    Languages,
    NodeHealth,
    NodeHeartbeat,
    NodeRegister,
    ResourceUsage,
    SchedulerToNode,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import load_settings

SEED = 11
NEIGHBOURS = 3
T = TypeVar("T")

SMALL = (10, 10, 10)
LARGE = (99, 200, 60)
LIMITS = (512, 512, 512)

CALLS_PER_LANGUAGE = 20
"""A language is lowered, put into a mask and into the index. A pair is nothing at all."""


class Link:
    """A node's connection that takes everything."""

    id = ConnectionId("c")

    def send(self, message: SchedulerToNode) -> bool:
        return True

    def superseded(self) -> None:
        raise AssertionError("there is no newer connection")

    def timed_out(self) -> None:
        raise AssertionError("no heartbeat is waited for")


def plane() -> LivePlane:
    clock = SystemClock()
    settings = load_settings(environ={}).settings
    return LivePlane(
        settings=settings,
        ledger=MemoryLedger(rules.ledger_terms(settings), InstanceId("here"), clock, Random(SEED)),
        authenticator=OpenAuthenticator(),
        connections=Connections(),
        metrics=Metrics(),
        instance_id=InstanceId("here"),
        clock=clock,
        randomness=Randomness(SEED),
    )


def tags(count: int) -> tuple[str, ...]:
    return tuple(f"x{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(count))


def registration(name: str, sizes: tuple[int, int, int]) -> NodeRegister:
    asr, nmt, tts = sizes
    return NodeRegister(
        version="1",
        schema_version="2.0",
        platform="test",
        hardware=Hardware(4, 8.0),
        services=(Service("nmt", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING),),
        languages=Languages(asr_langs=tags(asr), nmt_langs=tags(nmt), tts_langs=tags(tts)),
        node_id=NodeId(name),
    )


def counted(work: Callable[[], T]) -> tuple[T, int]:
    """The work's answer, and how many calls it took."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # what it finds is called here, and is not the work's
    sys.setprofile(count)
    try:
        return work(), calls
    finally:
        sys.setprofile(before)
        gc.enable()


def calls_of(sizes: tuple[int, int, int]) -> tuple[int, int]:
    """Calls of one more registration in a cell of such nodes, and of a change of its health."""
    applicant = Applicant(TenantId("t"), None)

    async def story() -> tuple[int, int]:
        live = plane()
        for number in range(NEIGHBOURS):
            await live.registry.register(registration(f"n{number}", sizes), applicant, Link())
        register = live.registry.register(registration("last", sizes), applicant, Link())
        # The memory ledger never waits: one step takes the coroutine to its end.
        (node, _), registering = counted(lambda: _finished(register))
        beat = live.registry.beat(node, NodeHeartbeat(ResourceUsage(1, 1), ()))
        _, becoming_ready = counted(lambda: _finished(beat))
        assert node.status is NodeHealth.READY
        await live.registry.stop()
        return registering, becoming_ready

    return asyncio.run(story())


def _finished(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    raise AssertionError("it waited for something")


@pytest.mark.parametrize("sizes", [LARGE, LIMITS], ids=str)
def test_a_registration_does_not_grow_with_pairs(sizes: tuple[int, int, int]) -> None:
    small, _ = calls_of(SMALL)
    large, _ = calls_of(sizes)
    languages = sum(sizes) - sum(SMALL)
    pairs = sizes[0] * sizes[2]
    assert large - small <= CALLS_PER_LANGUAGE * languages
    assert large < pairs, "fewer calls than there are pairs of speech alone"


@pytest.mark.parametrize("sizes", [LARGE, LIMITS], ids=str)
def test_a_change_of_health_does_not_grow_with_languages(sizes: tuple[int, int, int]) -> None:
    _, small = calls_of(SMALL)
    _, large = calls_of(sizes)
    assert large <= small + 10
