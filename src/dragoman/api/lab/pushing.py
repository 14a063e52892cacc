"""An experiment live over a socket: its progress, rows as they come, its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from dragoman.api.lab.desk import LabDesk
from dragoman.api.lab.principals import from_headers
from dragoman.auth import Principal
from dragoman.errors import DragomanError
from dragoman.lab.experiments import Overview
from dragoman.lab.feed import ItemsArchived, RunEnded, Watcher
from dragoman.lab.model import ExperimentId
from dragoman.lab.states import ENDED
from dragoman.live.gateway import CloseCode

STATS_SECONDS = 1.0
"""How often a watcher gets the experiment's progress, while it changes."""

_encode = msgspec.json.Encoder().encode


async def push_experiment(socket: WebSocket) -> None:
    """Tell a watcher of one experiment, until its run ends or the watcher leaves."""
    desk: LabDesk = socket.app.state.desk
    await socket.accept()
    try:
        principal = from_headers(socket.scope["headers"])
        pushing = asyncio.create_task(_push(socket, desk, principal))
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
                    await _send(socket, {"type": "row", **msgspec.structs.asdict(row)})
    return False


async def _send_stats(socket: WebSocket, overview: Overview) -> None:
    await _send(
        socket,
        {
            "type": "stats",
            "status": overview.experiment.status,
            "stats": overview.stats,
            "progress": overview.progress,
            "eta_seconds": overview.eta_seconds,
        },
    )


async def _send_end(socket: WebSocket, overview: Overview) -> None:
    experiment = overview.experiment
    end = {"type": "end", "status": experiment.status, "reason": experiment.reason}
    await _send(socket, {**end, "run_id": experiment.run_id})


async def _send(socket: WebSocket, message: object) -> None:
    await socket.send_text(_encode(message).decode())


def _has_ended(overview: Overview) -> bool:
    return overview.experiment.run_id is not None and overview.experiment.status in ENDED


async def _until_gone(socket: WebSocket) -> None:
    """Notice when the watcher leaves; messages from watchers are ignored."""
    with suppress(WebSocketDisconnect):
        while True:
            await socket.receive_text()
