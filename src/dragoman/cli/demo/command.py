"""The command itself: what it starts, what it prints, how it ends."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from dragoman.api import Server
from dragoman.cli.demo.fleet import LANGUAGES, running_fleet
from dragoman.cli.demo.sample import running_samples, sample_files
from dragoman.cli.demo.status import show_status
from dragoman.cli.demo.traffic import running_traffic
from dragoman.cli.serve import announce, run_until_stopped
from dragoman.settings import load_settings

_DRAIN_SECONDS = 3
"""Nothing in a demo is worth a long wait at its end."""

_JOB = (
    '{"src_lang": "en", "tgt_lang": "es", "text": "Good morning", "wait_ms": 5000,'
    ' "result_audio": "omit"}'
)


def demo(
    nodes: Annotated[
        int, typer.Option(metavar="N", min=0, max=1000, help="Number of simulated nodes.")
    ] = 12,
    traffic: Annotated[
        float,
        typer.Option(metavar="RATE", min=0, max=1000, help="Utterances per second; 0 for none."),
    ] = 20,
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port to listen on; 0 takes any free one.")
    ] = 8080,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, help="Stop after this many seconds."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep the data in this folder.  [default: a temporary folder]"
        ),
    ] = None,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
    ] = "error",
) -> None:
    """Run a server with a fleet, traffic and two experiments.

    It listens on this machine only, needs no keys, and deletes its data when it ends.
    """

    @asynccontextmanager
    async def fleet_and_traffic(server: Server) -> AsyncIterator[None]:
        services = server.services
        random = services.randomness.stream("demo traffic")
        socket_url = server.url.replace("http", "ws", 1)
        # Speakers use only languages that the fleet has.
        spoken = LANGUAGES[: nodes or None]
        async with (
            running_fleet(socket_url, nodes, services.randomness) as fleet,
            running_traffic(socket_url, traffic, spoken, random) as talk,
            running_samples(server.url),
        ):
            status = asyncio.create_task(show_status(fleet, talk))
            try:
                yield
            finally:
                status.cancel()
                await asyncio.gather(status, return_exceptions=True)

    with _folder(data_dir) as folder:
        flags = {
            "server": {
                "host": "127.0.0.1",
                "port": port,
                "data_dir": folder,
                "drain_seconds": _DRAIN_SECONDS,
            },
            "auth": {"mode": "open"},
            "cluster": {"enabled": False},
            "log": {"level": log_level},
        }
        run_until_stopped(
            load_settings(None, flags).settings,
            company=fleet_and_traffic,
            on_ready=_introduce,
            seconds=seconds,
        )


def _introduce(server: Server) -> None:
    announce(server)
    typer.echo("Try, in another terminal:")
    typer.echo(f"  curl -s {server.url}/api/v1/jobs -d '{_JOB}'")
    typer.echo(
        f'  {_this_program()} say --text "Good morning" --from en --to es --url {server.url}'
    )
    first, second = (file.described.name for file in sample_files())
    typer.echo(f'  {_this_program()} experiment show "{second}" --url {server.url}')
    if find_spec("scipy") is not None:  # a bare installation compares nothing
        typer.echo(
            f'  {_this_program()} experiment compare "{first}" "{second}" --url {server.url}'
        )
    typer.echo(f"Every route: {server.url}/docs. Press Ctrl-C to stop.")


def _this_program() -> str:
    """How to call this program from the same folder, where it may not be on the PATH."""
    on_path = shutil.which("dragoman") is not None
    return "dragoman" if on_path else shlex.quote(sys.argv[0])


@contextmanager
def _folder(data_dir: Path | None) -> Iterator[Path]:
    if data_dir is not None:
        yield data_dir
        return
    with TemporaryDirectory(prefix="dragoman-demo-") as folder:
        yield Path(folder)
