"""uvicorn as the server runs it: on our event loop, by our settings."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from dragoman.addresses import among
from dragoman.errors import SettingsError
from dragoman.live.budget import ByteBudget
from dragoman.live.gateway import SocketCount, TransportLimits, uvicorn_options
from dragoman.settings import Settings


class HttpServer(uvicorn.Server):
    """uvicorn, which leaves signals to us and tells when its start is settled."""

    def __init__(self, app: ASGIApp, settings: Settings, budget: ByteBudget) -> None:
        super().__init__(_config(app, settings, budget))
        self.settled = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.settled.set()

    def finish(self, patience_seconds: int) -> None:
        """Take no more requests; those in progress get this time to end."""
        if not (self.server_state.connections or self.server_state.tasks):
            # No request is open, so there is none to cut off and log.
            patience_seconds = max(patience_seconds, 1)
        self.config.timeout_graceful_shutdown = patience_seconds
        self.should_exit = True


def _transport_limits(settings: Settings, budget: ByteBudget) -> TransportLimits:
    limits = settings.limits
    return TransportLimits(
        max_frame_bytes=limits.max_frame_bytes,
        budget=budget,
        messages_per_second=limits.messages_per_second,
        header_seconds=limits.request_header_seconds,
        body_seconds=limits.request_body_seconds,
        sockets=SocketCount(limits.sockets_per_address),
        is_proxy=among(settings.server.trusted_proxies),
    )


def _config(app: ASGIApp, settings: Settings, budget: ByteBudget) -> uvicorn.Config:
    server = settings.server
    config = uvicorn.Config(
        app,
        lifespan="off",
        server_header=False,
        proxy_headers=bool(server.trusted_proxies),
        forwarded_allow_ips=list(server.trusted_proxies),
        ssl_certfile=server.tls_cert or None,
        ssl_keyfile=server.tls_key or None,
        **uvicorn_options(_transport_limits(settings, budget)),
    )
    try:
        config.load()
    except OSError as error:  # a missing file, or an ssl.SSLError
        raise SettingsError(
            f"server.tls_cert = {server.tls_cert!r} and server.tls_key = {server.tls_key!r} "
            f"cannot be used ({error}); name PEM files that belong together."
        ) from error
    return config
