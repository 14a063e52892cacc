"""The commands of append experiments: start one, add items to it, let it end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from dragoman.cli.experiment.experiment_file import read_experiment_file
from dragoman.cli.experiment.identity import imported_version
from dragoman.cli.lab.access import DataDirOption, TokenOption, UrlOption, Way, with_lab
from dragoman.cli.lab.client import LabClient
from dragoman.errors import DatasetInvalid, InvalidMessage, SchemaMismatch, SettingsError

ITEMS_AT_ONCE = 500

_IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The experiment's id, or its name.")]


def append_command(
    file: Annotated[Path, typer.Argument(metavar="EXP.toml", help="The experiment file.")],
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Start the experiment that a file describes on a server, in mode append.

    It stays open: `dragoman experiment invoke` adds items, `dragoman experiment finish` lets it
    end. With `cron` under [run] it runs over every item at these times instead. The file needs no
    [dataset].
    """
    read = read_experiment_file(file, appends=True)

    async def work(lab: LabClient) -> None:
        _require_server(lab)
        try:
            version_id = await imported_version(lab, read)
            started = await lab.submit(
                {**read.order(read.described.name, version_id), "mode": "append"}
            )
        except (DatasetInvalid, InvalidMessage, SchemaMismatch) as error:
            raise SettingsError(f"{file}: {error.message}") from error
        found = await lab.show(started.experiment_id)
        times = "" if found.next_run_at is None else f" Its next run is at {found.next_run_at}."
        typer.echo(f"{found.name} ({found.experiment_id}) takes items.{times}")

    with_lab(Way(url, data_dir, token, modules=file.parent), work)


def invoke_command(
    experiment: _IdArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A .jsonl file with an item in each line; - for standard input."
        ),
    ],
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Add the items of a file to an append experiment, and print their ids.

    A line is an object with columns, or `{"turns": [...]}`. Up to 500 items at a time are taken
    whole or not at all.
    """

    async def work(lab: LabClient) -> None:
        _require_server(lab)
        found = await lab.experiment(experiment)
        for items in _batches(file):
            for item_id in await lab.invoke(found.experiment_id, items):
                typer.echo(item_id)

    with_lab(Way(url, data_dir, token), work)


def finish_command(
    experiment: _IdArgument,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Let an append experiment end when its items are done; it starts no more by itself."""

    async def work(lab: LabClient) -> None:
        _require_server(lab)
        found = await lab.experiment(experiment)
        await lab.finish(found.experiment_id)
        typer.echo(f"{found.name} ({found.experiment_id}) takes no more items.")

    with_lab(Way(url, data_dir, token), work)


def _require_server(lab: LabClient) -> None:
    if lab.resume is not None:
        raise SettingsError(
            "Append experiments go on after this command has ended, so they need a server; start "
            "`dragoman serve` on this data folder, or name a server with --url."
        )


def _batches(path: Path) -> Iterator[list[dict[str, Any]]]:
    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            items: list[dict[str, Any]] = []
            for item in _items(file, str(path)):
                items.append(item)
                if len(items) == ITEMS_AT_ONCE:
                    yield items
                    items = []
            if items:
                yield items
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from None


def _items(file: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise SettingsError(f"{name}, line {number}: {error}") from None
        yield row if set(row) == {"turns"} else {"turns": [row]}
