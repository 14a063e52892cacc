"""Experiments live over a socket: one with its rows as they come, or the list of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from dragoman.api.lab.desk import LabDesk
from dragoman.api.lab.principals import from_headers
from dragoman.api.lab.views import ExperimentView, view_experiment
from dragoman.auth import Principal
from dragoman.errors import DragomanError
from dragoman.lab.experiments import Overview
from dragoman.lab.feed import ItemsArchived, RunEnded, Watcher
from dragoman.lab.model import ExperimentId, ResultRow, Stats
from dragoman.lab.states import ENDED
from dragoman.live.gateway import CloseCode

STATS_SECONDS = 1.0
"""How often a watcher gets the progress of experiments, while it changes."""

LISTED = 100
"""How many experiments a watcher of the list is told of: the latest ones."""

_encode = msgspec.json.Encoder().encode


class StatsMessage(msgspec.Struct, frozen=True, tag="stats"):
    """The progress of an experiment."""

    status: str
    stats: Stats
    progress: float
    eta_seconds: float | None


class RowMessage(ResultRow, frozen=True, tag="row"):
    """A row that has been archived."""


class EndMessage(msgspec.Struct, frozen=True, tag="end"):
    """The run is over; the socket closes."""

    status: str
    reason: str | None
    run_id: str | None


class ListMessage(msgspec.Struct, frozen=True, tag="experiments"):
    """What changed in the tenant's latest experiments since the message before."""

    reset: bool
    """Whether it is all of them: the first message is."""
    changed: list[ExperimentView]
    """The latest first."""
    gone: list[str]
    """Those that were deleted, or that newer ones took the place of."""


ExperimentMessage = StatsMessage | RowMessage | EndMessage
"""What `/ws/experiments/{experiment_id}` sends."""

_Push = Callable[[WebSocket, LabDesk, Principal], Awaitable[None]]


async def push_experiment(socket: WebSocket) -> None:
    """Tell a watcher of one experiment, until its run ends or the watcher leaves."""
    await _until_told(socket, _push)


async def push_list(socket: WebSocket) -> None:
    """Tell a watcher of the tenant's latest experiments, until the watcher leaves."""
    await _until_told(socket, _push_list)


async def _until_told(socket: WebSocket, push: _Push) -> None:
    desk: LabDesk = socket.app.state.desk
    await socket.accept()
    try:
        principal = from_headers(socket.scope["headers"])
        pushing = asyncio.ensure_future(push(socket, desk, principal))
        leaving = asyncio.create_task(_until_gone(socket))
        try:
            await asyncio.wait([pushing, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pushing, leaving):
                task.cancel()
            await asyncio.gather(pushing, leaving, return_exceptions=True)
        if not pushing.cancelled():
            pushing.result()
            await socket.close(CloseCode.NORMAL)
    except DragomanError as error:
        await socket.close(CloseCode.POLICY, error.message[:100])


async def _push(socket: WebSocket, desk: LabDesk, principal: Principal) -> None:
    experiment_id = ExperimentId(socket.path_params["experiment_id"])
    show = desk.lab.experiments.show
    with desk.lab.feed.watch(experiment_id) as watcher:
        told = overview = await show(principal.tenant, experiment_id)
        await _send_stats(socket, overview)
        is_over = _has_ended(overview)
        while not is_over:
            # Rows may still be on their way when the end is already on record.
            was_ended = _has_ended(overview)
            is_over = await _tell_rows(socket, desk, watcher) or was_ended
            overview = await show(principal.tenant, experiment_id)
            if is_over or overview != told:
                await _send_stats(socket, overview)
                told = overview
        await _send_end(socket, overview)


async def _tell_rows(socket: WebSocket, desk: LabDesk, watcher: Watcher) -> bool:
    """Pass on rows for a while; whether the run ended meanwhile."""
    loop = asyncio.get_running_loop()
    until = loop.time() + STATS_SECONDS
    while (left := until - loop.time()) > 0:
        try:
            change = await asyncio.wait_for(anext(watcher), left)
        except TimeoutError:
            break
        match change:
            case RunEnded():
                return True
            case ItemsArchived(experiment_id, _, keys):
                for row in await desk.results.of_items(experiment_id, keys):
                    await _send(socket, RowMessage(**msgspec.structs.asdict(row)))
    return False


async def _push_list(socket: WebSocket, desk: LabDesk, principal: Principal) -> None:
    known: dict[ExperimentId, Overview] = {}
    reset = True
    while True:
        found = await desk.lab.experiments.overviews_since(principal.tenant, known, most=LISTED)
        now = {one.experiment.experiment_id: one for one in found}
        changed = [view_experiment(one) for key, one in now.items() if known.get(key) != one]
        gone = [key for key in known if key not in now]
        if reset or changed or gone:
            await _send(socket, ListMessage(reset, changed, list(gone)))
        known, reset = now, False
        await asyncio.sleep(STATS_SECONDS)


async def _send_stats(socket: WebSocket, overview: Overview) -> None:
    status = overview.experiment.status
    await _send(
        socket, StatsMessage(status, overview.stats, overview.progress, overview.eta_seconds)
    )


async def _send_end(socket: WebSocket, overview: Overview) -> None:
    experiment = overview.experiment
    await _send(socket, EndMessage(experiment.status, experiment.reason, experiment.run_id))


async def _send(socket: WebSocket, message: object) -> None:
    await socket.send_text(_encode(message).decode())


def _has_ended(overview: Overview) -> bool:
    return overview.experiment.run_id is not None and overview.experiment.status in ENDED


async def _until_gone(socket: WebSocket) -> None:
    """Notice when the watcher leaves; messages from watchers are ignored."""
    with suppress(WebSocketDisconnect):
        while True:
            await socket.receive_text()
