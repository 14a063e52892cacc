"""Finding a lab: a server's, or one inside this program when no server runs."""

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

from dragoman.api import PRINCIPAL_HEADER, as_header, create_lab_app, opened_desk
from dragoman.auth import DEFAULT_TENANT, Principal, Role
from dragoman.cli.lab.client import LabClient
from dragoman.data_folder import find_server
from dragoman.errors import NotFound, SettingsError
from dragoman.lab.model import RunId
from dragoman.lab.owners import process_of
from dragoman.lab.plane import Lab
from dragoman.lab.plugins import Context, fleet_of_folder
from dragoman.lab.roles import EMBEDDED
from dragoman.observability import Metrics, configure_logging
from dragoman.settings import Settings, load_settings
from dragoman.store import SchemaStatus, check, upgrade

TOKEN_VARIABLE = "DRAGOMAN_TOKEN"

UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="U", help="The server whose lab to use.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="The lab's data folder; if a server runs on it, use that.  [default: .dragoman]",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", metavar="KEY", envvar=TOKEN_VARIABLE, help="API key, if needed."),
]

_USER = Principal(key_id=None, role=Role.OPERATOR, tenant=DEFAULT_TENANT)
_ANSWER_SECONDS = 600.0
"""Importing a large file takes a while; nothing else does."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Way:
    """The options by which the user names a lab."""

    url: str | None = None
    data_dir: Path | None = None
    token: str | None = None
    modules: Path = Path()
    """Where the user's functions are looked for, besides the current folder."""
    new: bool = False
    """Whether to create a lab where there is none."""
    scratch: Path | None = None
    """A folder for a lab that is thrown away: used instead of the data folder, if no server is."""
    mirrored: bool = False
    """Whether a lab inside this program keeps the columnar mirror, as a server's does."""

    def __post_init__(self) -> None:
        if self.url is None:
            return
        if self.data_dir is not None:
            raise SettingsError("--url and --data-dir name two labs; give one of them.")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise SettingsError(
                f"--url {self.url!r} is not a server's address; write it like http://127.0.0.1:8080."
            )

    def as_options(self) -> str:
        """The options that name the same lab, as the user would type them."""
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
    """The lab of the named server, of the data folder's server, or one inside this program."""
    if way.url is not None:
        async with _server(way.url, way.token) as client:
            yield client
        return
    settings = _settings(way.data_dir)

    async def find() -> str | None:
        running = await asyncio.to_thread(find_server, settings.server.data_dir)
        return None if running is None else running.url

    url = await find()
    if url is not None:
        async with _server(url, way.token, find) as client:
            yield client
        return
    folder = settings.server.data_dir
    if way.scratch is not None:
        settings = _settings(way.scratch, "sqlite:///{data_dir}/dragoman.db")
    elif not way.new:
        await asyncio.to_thread(_check_lab, settings)
    # As with `python -m`: the user's functions are in these folders, not beside this program.
    modules = str(way.modules.absolute())
    sys.path[:0] = dict.fromkeys((modules, str(Path.cwd())))
    await asyncio.to_thread(upgrade, settings.store.database_url)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        # Without a server, experiments run as the user, who may call what they like.
        desk = await stack.enter_async_context(
            opened_desk(
                settings,
                Context(
                    modules=modules,
                    frees_audio=way.scratch is None,
                    own_fleet=fleet_of_folder(folder, settings.server.tls_cert),
                ),
                metrics,
                role=EMBEDDED,
                mirrored=way.mirrored,
            )
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


def command_settings() -> Settings:
    """The settings of commands, which come from the environment and the file that it names."""
    return _settings(None)


def _settings(data_dir: Path | None, database_url: str | None = None) -> Settings:
    environ = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    flags = {"server": {"data_dir": data_dir}, "store": {"database_url": database_url}}
    return load_settings(None, flags, environ).settings


async def _resume(lab: Lab, experiment_id: str, run_id: str) -> str | None:
    """Resume a run of this lab; returns a sentence about who runs it now, if another does."""
    await lab.experiments.check(DEFAULT_TENANT, experiment_id)
    holder = await lab.experiments.holder(RunId(run_id))
    lab.resume(RunId(run_id))
    if holder is None:
        return None
    process = process_of(holder.owner)
    who = "a process on another machine" if process is None else f"process {process}"
    return (
        f"It is being run by {who}. If that process stops renewing its lease, this command takes "
        f"over within {holder.seconds_left:.0f} s."
    )


def _check_lab(settings: Settings) -> None:
    """Refuse a folder without a lab: the user most likely means another folder."""
    if check(settings.store.database_url).state is SchemaStatus.EMPTY:
        raise NotFound(
            f"There is no lab in {settings.server.data_dir}; create one with `dragoman dataset "
            "import` or `dragoman experiment run`, or name another folder with --data-dir."
        )


@asynccontextmanager
async def _server(
    url: str, token: str | None, find: Callable[[], Awaitable[str | None]] | None = None
) -> AsyncIterator[LabClient]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=_ANSWER_SECONDS) as http:
        yield LabClient(http, find=find)
