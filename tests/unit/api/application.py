"""The application over real services, asked without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import APIRouter

from dragoman.api import ServerState, Services, create_app, open_services
from dragoman.clock import SystemClock
from dragoman.randomness import Randomness
from dragoman.settings import Settings, load_settings


def settings_in(folder: Path, **sections: dict[str, Any]) -> Settings:
    """Settings of a server that keeps everything in the folder and takes any free port."""
    flags: dict[str, dict[str, Any]] = {"server": {"data_dir": folder, "port": 0}}
    for name, values in sections.items():
        flags.setdefault(name, {}).update(values)
    return load_settings(None, flags, environ={}).settings


@asynccontextmanager
async def asked(
    settings: Settings, routers: Sequence[APIRouter] = ()
) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
    """A client of the application, and the services behind it, ready for work."""
    async with open_services(settings, SystemClock(), Randomness(seed=1)) as services:
        services.lifecycle.move(ServerState.READY)
        transport = httpx.ASGITransport(create_app(services, routers=routers))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client, services
