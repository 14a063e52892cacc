"""A whole server in one event loop: start, serve, drain, stop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from dragoman.api.app import create_app
from dragoman.api.http import HttpServer
from dragoman.api.lifecycle import ServerState
from dragoman.api.parts import Assemble, Parts, no_parts
from dragoman.api.services import Services, open_services
from dragoman.clock import Clock, SystemClock
from dragoman.data_folder import ServerRecord, claimed_folder, published_record
from dragoman.errors import InternalError
from dragoman.listening import listen, url_for_peers, url_of
from dragoman.live.gateway import CloseCode
from dragoman.observability import get_logger
from dragoman.randomness import Randomness
from dragoman.settings import Settings

GOODBYE_SECONDS = 5
"""How long sockets, requests and planes may take to end once the drain is over."""

_log = get_logger(__name__)


@asynccontextmanager
async def running_server(
    settings: Settings,
    *,
    assemble: Assemble = no_parts,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    sources: Mapping[str, str] | None = None,
) -> AsyncIterator[Server]:
    """A server that is ready inside the block; leaving the block drains and stops it.

    sources says where each setting came from, as `load_settings` has it.

    A block that fails or is cancelled, also while it drains, stops the server at once.
    """
    data_dir, host = settings.server.data_dir, settings.server.host
    with claimed_folder(data_dir):
        listeners = listen(host, settings.server.port)
        port = listeners[0].getsockname()[1]
        tls = bool(settings.server.tls_cert)
        advertised = settings.cluster.advertise_host
        peer_url = url_for_peers(host, port, tls=tls, advertised=advertised)
        own_url = url_of(host, port, tls=tls)
        try:
            async with open_services(
                settings,
                clock or SystemClock(),
                randomness or Randomness(),
                peer_url,
                own_url,
                sources,
            ) as services:
                server = Server(services, assemble(services), listeners)
                patience_seconds = 0
                try:
                    await server.start()
                    with published_record(data_dir, server.record):
                        yield server
                        await server.drain()
                    patience_seconds = GOODBYE_SECONDS
                finally:
                    await server.stop(patience_seconds)
        finally:
            for listener in listeners:
                listener.close()


class Server:
    """One running instance. Made by `running_server`."""

    def __init__(
        self, services: Services, parts: Parts, listeners: Sequence[socket.socket]
    ) -> None:
        settings = services.settings
        port = listeners[0].getsockname()[1]
        self.services = services
        self.url = url_of(settings.server.host, port, tls=bool(settings.server.tls_cert))
        self.record = ServerRecord(
            url=self.url,
            pid=os.getpid(),
            instance_id=services.instance_id,
            started_at=_rfc3339(services.clock.now_ms()),
        )
        self._planes = parts.planes
        self._listeners = list(listeners)
        app = create_app(
            services,
            routers=parts.routers,
            sockets=parts.sockets,
            larger_bodies=parts.larger_bodies,
        )
        self._http = HttpServer(app, settings, services.budget)
        self._serving: asyncio.Task[None] | None = None

    @property
    def state(self) -> ServerState:
        return self.services.lifecycle.state

    async def start(self) -> None:
        """Answer on the port, at first with "starting"; then start the planes, then be ready."""
        self._serving = asyncio.create_task(self._http.serve(self._listeners), name="http")
        await self._http.settled.wait()
        if not self._http.started:
            await self.failed()
        for plane in self._planes:
            await plane.start()
        self.services.lifecycle.move(ServerState.READY)
        _log.info("server_ready", url=self.url, instance_id=self.services.instance_id)

    async def failed(self) -> None:
        """Wait for the server to end by itself, which it never should, and raise why."""
        if self._serving is not None:
            # Not awaited itself: a caller that stops waiting must not stop the server.
            await asyncio.wait([self._serving])
            self._serving.result()
        raise InternalError("The HTTP server stopped by itself; its log says more.")

    async def drain(self) -> None:
        """Take no new work and wait for what is running, up to drain_seconds."""
        settings = self.services.settings.server
        drain_seconds = settings.drain_seconds
        if settings.drain_delay_seconds:
            self.services.lifecycle.move(ServerState.LEAVING)
            _log.info("server_leaving", for_seconds=settings.drain_delay_seconds)
            await asyncio.sleep(settings.drain_delay_seconds)
        self.services.lifecycle.move(ServerState.DRAINING)
        self.services.connections.refuse_new()
        _log.info("server_draining", sockets=len(self.services.connections))
        try:
            async with asyncio.timeout(drain_seconds):
                await _all("drain", [plane.drain() for plane in self._planes])
        except TimeoutError:
            # An operator who set 0 asked for it.
            tell = _log.warning if drain_seconds else _log.info
            tell("drain_cut_short", after_seconds=drain_seconds)

    async def stop(self, patience_seconds: int) -> None:
        """Close every socket with 1001, end what is being answered, stop the planes."""
        connections = self.services.connections
        connections.refuse_new()
        connections.close_all(CloseCode.DRAINING, "the server is shutting down")
        try:
            async with asyncio.timeout(patience_seconds):
                await connections.wait_empty()
        except TimeoutError:
            # They have their turn to close even where there is no time to wait for them.
            if left := len(connections):
                _log.warning("sockets_left", sockets=left)
        if self._serving is not None:
            self._http.finish(patience_seconds)
            await asyncio.wait([self._serving])
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await _all("stop", [plane.stop() for plane in reversed(self._planes)])
        except TimeoutError:
            _log.warning("planes_left", after_seconds=GOODBYE_SECONDS)
        self.services.lifecycle.move(ServerState.STOPPED)
        _log.info("server_stopped")


async def _all(step: str, steps: Sequence[Awaitable[None]]) -> None:
    """Take a step with every plane at once; one that fails does not keep the others from theirs."""
    for outcome in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(outcome, Exception):
            _log.error("plane_failed", step=step, error=outcome)


def _rfc3339(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
