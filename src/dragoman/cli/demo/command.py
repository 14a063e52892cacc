"""The command itself: what it starts, what it prints, how it ends."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from dragoman.api import Server
from dragoman.cli.demo.dialogue import running_dialogue
from dragoman.cli.demo.fleet import LANGUAGES, LANGUAGES_BESIDE_REAL_NODES, running_fleet
from dragoman.cli.demo.local_nodes import (
    BY,
    SOURCE,
    TARGET,
    missing_tools,
    running_local_nodes,
)
from dragoman.cli.demo.sample import running_samples, sample_files
from dragoman.cli.demo.status import show_status
from dragoman.cli.demo.traffic import running_traffic
from dragoman.cli.serve import announce, run_until_stopped
from dragoman.sdk import Node
from dragoman.settings import load_settings

_REAL_NODES = 2
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
    real_nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=16,
            help="Number of real nodes for English to Spanish, where their tools are installed.  "
            "[default: 2, or none with --nodes 0]",
        ),
    ] = None,
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
    """Run a server with a fleet, speakers and two experiments.

    Real nodes serve English to Spanish where their tools are installed, and a spoken dialogue
    runs through them; all other nodes are simulated. The server listens on this machine only,
    needs no keys, and deletes its data when it ends.
    """

    if real_nodes is None:
        real_nodes = _REAL_NODES if nodes else 0
    lacking = missing_tools() if real_nodes else []
    parties: list[str] = []
    """What is real and what is simulated, in words."""

    @asynccontextmanager
    async def fleet_and_traffic(server: Server) -> AsyncIterator[None]:
        services = server.services
        random = services.randomness.stream("demo traffic")
        socket_url = server.url.replace("http", "ws", 1)
        async with AsyncExitStack() as stack:
            real: list[Node] = []
            if real_nodes and not lacking:
                local = running_local_nodes(socket_url, real_nodes, services.randomness)
                real = await stack.enter_async_context(local)
            groups = LANGUAGES_BESIDE_REAL_NODES if real else LANGUAGES
            fleet = await stack.enter_async_context(
                running_fleet(socket_url, nodes, services.randomness, groups)
            )
            # Speakers use only languages that the fleet has.
            spoken = groups[: nodes or None]
            talk = await stack.enter_async_context(
                running_traffic(socket_url, traffic, spoken, random)
            )
            await stack.enter_async_context(running_samples(server.url))
            await stack.enter_async_context(running_dialogue(socket_url, wanted=bool(real)))
            parties.extend(_who_is_who(real, fleet, spoken, lacking if real_nodes else None))
            status = asyncio.create_task(show_status([*real, *fleet], talk))
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
        loaded = load_settings(None, flags)
        run_until_stopped(
            loaded.settings,
            sources=loaded.sources,
            company=fleet_and_traffic,
            on_ready=lambda server: _introduce(server, parties),
            seconds=seconds,
        )


def _who_is_who(
    real: Sequence[Node],
    fleet: Sequence[Node],
    spoken: Sequence[Sequence[str]],
    lacking: Sequence[str] | None,
) -> list[str]:
    """What is real and what is simulated; lacking is None where no real node is wanted."""
    lines = []
    if real:
        names = ", ".join(node.node_id or "" for node in real)
        lines.append(f"Real: {names} serve {SOURCE}:{TARGET} by {BY}, and nothing else does.")
        lines.append(
            f"They alone serve {TARGET}:{SOURCE} too, from text: nothing here hears {TARGET} for "
            f"{SOURCE}."
        )
        if fleet:
            lines.append(
                f"Simulated: {len(fleet)} nodes, each between its own languages "
                f"({_between(spoken)}), and they say so."
            )
        return lines
    lines.append(f"Simulated: all {len(fleet)} nodes, which neither hear, translate nor speak.")
    if lacking:
        lines.append(f"For real ones too: {'; '.join(lacking)}")
    return lines


def _between(groups: Sequence[Sequence[str]]) -> str:
    """The languages of nodes, without those that others have all of."""
    known = list(dict.fromkeys(frozenset(group) for group in groups))
    widest = [group for group in known if not any(group < other for other in known)]
    return ", ".join("-".join(sorted(group)) for group in widest)


def _introduce(server: Server, parties: Sequence[str]) -> None:
    announce(server)
    for line in parties:
        typer.echo(line)
    typer.echo(
        f"In a browser: {server.url} (the fleet), {server.url}/talk (speak or write), "
        f"{server.url}/lab (experiments)."
    )
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
