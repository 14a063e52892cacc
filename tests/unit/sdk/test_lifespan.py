"""What a node loads before it registers, and lets go after it has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from tests.unit.sdk.scene import Scene, play, settle

from dragoman.errors import SettingsError
from dragoman.live.protocol import NodeHeartbeat, NodeRegister

Lifespan = Callable[[], AbstractAsyncContextManager[None]]


def loading(told: list[str], seconds: float) -> Lifespan:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        told.append("loading")
        try:
            await asyncio.sleep(seconds)
            told.append("warm")
            yield
        finally:
            told.append("let go")

    return lifespan


def test_a_node_registers_when_it_is_warm_and_lets_go_after_it_has_left() -> None:
    told: list[str] = []

    async def script(scene: Scene) -> None:
        await asyncio.sleep(29)
        assert scene.scheduler.heard == []
        assert told == ["loading"]
        await scene.scheduler.hears(NodeRegister)
        assert told == ["loading", "warm"]
        await scene.scheduler.hears(NodeHeartbeat)
        scene.node.leave("enough")
        await scene.serving
        assert told == ["loading", "warm", "let go"]

    play(script, lifespan=loading(told, 30))


def test_a_node_that_is_told_to_leave_while_it_warms_up_never_registers() -> None:
    told: list[str] = []

    async def script(scene: Scene) -> None:
        await settle()
        scene.node.leave("SIGTERM")
        await scene.serving
        assert scene.scheduler.heard == []

    play(script, lifespan=loading(told, 30))
    assert told == ["loading", "let go"]


def test_a_node_that_is_cancelled_lets_go() -> None:
    told: list[str] = []

    async def script(scene: Scene) -> None:
        await scene.scheduler.hears(NodeHeartbeat)

    play(script, lifespan=loading(told, 1))
    assert told == ["loading", "warm", "let go"]


class Broken(AbstractAsyncContextManager[None]):
    async def __aenter__(self) -> None:
        raise SettingsError("the model is not there")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("it was never entered")


def test_what_fails_while_a_node_warms_up_is_raised_by_serve() -> None:
    async def script(scene: Scene) -> None:
        with pytest.raises(SettingsError, match="the model is not there"):
            await scene.serving
        assert scene.scheduler.heard == []

    play(script, lifespan=Broken)
