"""``dragoman cluster``: who is in the cluster, and what to do with notes nobody could handle."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from dragoman.api import ClusterShown, LetterShown, find_server
from dragoman.cli.cluster.client import ClusterClient
from dragoman.errors import NotFound
from dragoman.observability import configure_logging
from dragoman.settings import load_settings

_FAILED = 1
_TOKEN_VARIABLE = "DRAGOMAN_TOKEN"

UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="U", help="Any instance of the cluster.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Without --url: the server that runs on this folder.  [default: .dragoman]",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="KEY", envvar=_TOKEN_VARIABLE, help="An operator's key, where needed."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
LettersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="The letters, as `list` shows them.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every letter that there is now.")]

app = typer.Typer(
    name="cluster", help="Look after several instances that work as one.", no_args_is_help=True
)
dlq = typer.Typer(
    help="Dead letters: notes between instances that could not be handled.", no_args_is_help=True
)
app.add_typer(dlq, name="dlq")


@app.command("status")
def status_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Show every instance. Exit code 1 when one of them is gone, or there are dead letters."""

    async def show(client: ClusterClient) -> int:
        cluster = await client.cluster()
        if json:
            typer.echo(msgspec.json.encode(cluster))
        else:
            _print_instances(cluster)
        well = all(seen.alive and not seen.dead_letters for seen in cluster.instances)
        return 0 if well else _FAILED

    raise typer.Exit(_with_client(show, url, data_dir, token))


@dlq.command("list")
def list_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """List dead letters, oldest first."""

    async def show(client: ClusterClient) -> int:
        letters = [letter async for letter in client.letters()]
        if json:
            typer.echo(msgspec.json.encode(letters))
        else:
            _print_letters(letters)
        return 0

    raise typer.Exit(_with_client(show, url, data_dir, token))


@dlq.command("replay")
def replay_command(
    letters: LettersArgument = None,
    every: AllOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Put dead letters into their instances' inboxes again."""
    _for_each(ClusterClient.replay, "replayed", letters, every, (url, data_dir, token))


@dlq.command("drop")
def drop_command(
    letters: LettersArgument = None,
    every: AllOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Forget dead letters. Notes are hints: what they were about is swept up without them."""
    _for_each(ClusterClient.drop, "dropped", letters, every, (url, data_dir, token))


def _for_each(
    act: Callable[[ClusterClient, str], Awaitable[None]],
    done: str,
    letters: list[str] | None,
    every: bool,
    way: tuple[str | None, Path | None, str | None],
) -> None:
    """Do something with each letter; those that cannot be done do not keep the others back."""
    if bool(letters) == every:
        raise typer.BadParameter("Name letters by their ids, or say --all.")

    async def work(client: ClusterClient) -> int:
        code = 0
        named = letters or [letter.letter_id async for letter in client.letters()]
        for letter_id in named:
            try:
                await act(client, letter_id)
            except NotFound as error:
                typer.echo(f"error: {error.message}", err=True)
                code = _FAILED
            else:
                typer.echo(f"{done} {letter_id}")
        return code

    raise typer.Exit(_with_client(work, *way))


def _with_client(
    work: Callable[[ClusterClient], Awaitable[int]],
    url: str | None,
    data_dir: Path | None,
    token: str | None,
) -> int:
    configure_logging("error", "console")
    found = url or _running_server(data_dir)

    async def run() -> int:
        client = ClusterClient(found, token)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def _running_server(data_dir: Path | None) -> str:
    flags: dict[str, Any] = {"server": {"data_dir": data_dir}}
    environ = {name: value for name, value in os.environ.items() if name != _TOKEN_VARIABLE}
    folder = load_settings(None, flags, environ).settings.server.data_dir
    running = find_server(folder)
    if running is None:
        raise NotFound(f"No server runs on {folder}; name an instance with --url.")
    return running.url


def _print_instances(cluster: ClusterShown) -> None:
    table = Table("instance", "state", "nodes", "sessions", "inbox", "in work", "dead", "since")
    for seen in cluster.instances:
        state = "draining" if seen.draining else "up"
        table.add_row(
            seen.instance_id,
            state if seen.alive else "gone",
            str(seen.nodes),
            str(seen.sessions),
            str(seen.inbox_length),
            str(seen.pending),
            str(seen.dead_letters),
            seen.started_at or "",
        )
    Console().print(table)


def _print_letters(letters: list[LetterShown]) -> None:
    table = Table("letter", "instance", "buried", "reason", "tries", "note")
    for letter in letters:
        note = "unreadable" if letter.note is None else _in_words(letter.note)
        table.add_row(
            letter.letter_id,
            letter.instance_id,
            letter.buried_at,
            letter.reason,
            str(letter.deliveries),
            note,
        )
    Console().print(table)


def _in_words(note: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in note.items() if value is not None)
