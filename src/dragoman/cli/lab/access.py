"""The way to a lab: a server's, or one inside this program when no server runs."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import httpx
import typer

from dragoman.api import PRINCIPAL_HEADER, as_header, create_lab_app, find_server, opened_desk
from dragoman.auth import DEFAULT_TENANT, Principal, Role
from dragoman.cli.lab.client import LabClient
from dragoman.errors import NotFound, SettingsError
from dragoman.lab.model import RunId
from dragoman.lab.owners import process_of
from dragoman.lab.plane import Lab
from dragoman.lab.targets import Context
from dragoman.observability import Metrics, configure_logging
from dragoman.settings import Settings, load_settings
from dragoman.store import SchemaStatus, check, upgrade

TOKEN_VARIABLE = "DRAGOMAN_TOKEN"

UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="U", help="The server whose lab is used.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder of the lab; a server that runs on it is used.  [default: .dragoman]",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", metavar="KEY", envvar=TOKEN_VARIABLE, help="A key, where it is asked."),
]

_USER = Principal(key_id=None, role=Role.OPERATOR, tenant=DEFAULT_TENANT)
_ANSWER_SECONDS = 600.0
"""Importing a large file takes a while; nothing else does."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Way:
    """How the user says which lab they mean."""

    url: str | None = None
    data_dir: Path | None = None
    token: str | None = None
    modules: Path = Path()
    """Where functions of the user's own are found, besides the folder they are in."""
    new: bool = False
    """Whether a lab is made where there is none."""

    def __post_init__(self) -> None:
        if self.url is None:
            return
        if self.data_dir is not None:
            raise SettingsError("--url and --data-dir name two labs; give one of them.")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise SettingsError(
                f"--url {self.url!r} is no server's address; write it like http://127.0.0.1:8080."
            )

    def as_options(self) -> str:
        """The options that mean the same lab again, to be typed."""
        options = [("--url", self.url), ("--data-dir", self.data_dir)]
        return "".join(
            f" {name} {shlex.quote(str(value))}" for name, value in options if value is not None
        )


def with_lab(way: Way, work: Callable[[LabClient], Awaitable[Result]]) -> Result:
    """Run the function with a lab, on an event loop of its own."""
    configure_logging("error", "console")

    async def run() -> Result:
        async with reached_lab(way) as lab:
            return await work(lab)

    return asyncio.run(run())


@asynccontextmanager
async def reached_lab(way: Way) -> AsyncIterator[LabClient]:
    """The lab of the server named, of the one that runs on the data folder, or one of our own."""
    if way.url is not None:
        async with _server(way.url, way.token) as client:
            yield client
        return
    environ = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    settings = load_settings(None, {"server": {"data_dir": way.data_dir}}, environ).settings

    async def find() -> str | None:
        running = await asyncio.to_thread(find_server, settings.server.data_dir)
        return None if running is None else running.url

    url = await find()
    if url is not None:
        async with _server(url, way.token, find) as client:
            yield client
        return
    if not way.new:
        await asyncio.to_thread(_check_lab, settings)
    # As `python -m` would: the program's own folder is of no use to its user.
    modules = str(way.modules.absolute())
    sys.path[:0] = dict.fromkeys((modules, str(Path.cwd())))
    await asyncio.to_thread(upgrade, settings.store.database_url)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        # Without a server, experiments run as the user, who may call what they like.
        desk = await stack.enter_async_context(
            opened_desk(settings, Context(modules=modules), metrics, embedded=True)
        )
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                transport=httpx.ASGITransport(create_lab_app(desk, metrics)),
                base_url="http://lab",
                headers={PRINCIPAL_HEADER: as_header(_USER)},
                timeout=_ANSWER_SECONDS,
            )
        )
        yield LabClient(http, resume=partial(_resume, desk.lab))


async def _resume(lab: Lab, experiment_id: str, run_id: str) -> str | None:
    """Go on with a run of this lab; what is waited for before that, if anything is."""
    await lab.experiments.check(DEFAULT_TENANT, experiment_id)
    holder = await lab.experiments.holder(RunId(run_id))
    lab.resume(RunId(run_id))
    if holder is None:
        return None
    process = process_of(holder.owner)
    who = "a process on another machine" if process is None else f"process {process}"
    return (
        f"It is being run by {who}. Should that fall silent, this command takes over "
        f"within {holder.seconds_left:.0f} s."
    )


def _check_lab(settings: Settings) -> None:
    """Refuse a folder without a lab: most likely another one is meant."""
    if check(settings.store.database_url).state is SchemaStatus.EMPTY:
        raise NotFound(
            f"There is no lab in {settings.server.data_dir}; `dragoman dataset import` or "
            "`dragoman experiment run` makes one, and --data-dir names another folder."
        )


@asynccontextmanager
async def _server(
    url: str, token: str | None, find: Callable[[], Awaitable[str | None]] | None = None
) -> AsyncIterator[LabClient]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=_ANSWER_SECONDS) as http:
        yield LabClient(http, find=find)
