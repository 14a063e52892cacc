"""``dragoman dataset``: import, list, show, export and delete datasets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.console import Console

from dragoman.cli.lab.access import DataDirOption, TokenOption, UrlOption, Way, with_lab
from dragoman.cli.lab.client import LabClient
from dragoman.cli.lab.files import format_of
from dragoman.cli.lab.import_progress import told_on
from dragoman.cli.showing import JsonOption, counted, print_json, print_table, say
from dragoman.lab.library import DatasetFile

app = typer.Typer(
    name="dataset", help="Import, list, show, export and delete datasets.", no_args_is_help=True
)

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A .jsonl, .csv or .parquet file, or a .zip of one with its audio.",
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="N", help="The dataset's name, or its id.")]


@app.command("import")
def import_command(
    file: FileArgument,
    name: Annotated[str, typer.Option("--name", metavar="N", help="The dataset's name.")],
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="jsonl, csv or parquet.  [default: by the file's extension]",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="A JSON Schema for every turn."
        ),
    ] = None,
    audio: Annotated[
        list[str] | None,
        typer.Option(
            "--audio",
            metavar="COLUMN",
            help="A column that names audio files beside FILE; may be repeated.",
        ),
    ] = None,
    copy: Annotated[
        bool,
        typer.Option(
            "--copy/--no-copy",
            help="Copy the audio into the data folder, or leave it where it is.",
        ),
    ] = True,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Make a dataset of a file, or the next version of the dataset of that name.

    The same rows and schema are the same version: importing a file twice changes nothing.
    """
    wanted = DatasetFile(file, file_format, schema, tuple(audio or ()), copy)

    async def work(lab: LabClient) -> None:
        with told_on(Console(stderr=True)) as tell:
            made = await lab.import_dataset(wanted, name, tell)
        if as_json:
            print_json(made)
        elif made.created:
            say(
                f"Imported {counted(made.items, 'item')} as version {made.version} of {name!r} "
                f"({made.version_id})."
            )
        else:
            say(
                f"Nothing was imported: version {made.version} of {name!r} already has "
                f"{'this' if made.items == 1 else 'these'} {counted(made.items, 'item')} "
                f"({made.version_id})."
            )

    with_lab(Way(url, data_dir, token, new=True), work)


@app.command("list")
def list_command(
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List every dataset with its latest version."""

    async def work(lab: LabClient) -> None:
        found = await lab.datasets()
        if as_json:
            print_json(found)
            return
        print_table(
            ("name", "version", "items", "made", "dataset_id"),
            (
                (
                    one.name,
                    one.latest.version,
                    one.latest.items,
                    one.latest.created_at,
                    one.dataset_id,
                )
                for one in found
            ),
            empty="There are no datasets; `dragoman dataset import` makes one.",
        )

    with_lab(Way(url, data_dir, token), work)


@app.command("show")
def show_command(
    name: NameArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show the columns and the versions of a dataset."""

    async def work(lab: LabClient) -> None:
        found = await lab.dataset(name)
        versions = await lab.versions(found.dataset_id)
        if as_json:
            print_json({"dataset": found, "versions": versions})
            return
        say(f"{found.name} ({found.dataset_id}), made {found.created_at}")
        columns = found.latest.schema.get("properties", {})
        for column, kind in columns.items():
            say(f"  {column}: {kind.get('type', 'anything')}")
        print_table(
            ("version", "items", "most turns", "made", "version_id"),
            (
                (
                    version.version,
                    version.items,
                    version.max_turns,
                    version.created_at,
                    version.version_id,
                )
                for version in versions
            ),
            empty="It has no version.",
        )

    with_lab(Way(url, data_dir, token), work)


@app.command("export")
def export_command(
    name: NameArgument,
    version: Annotated[
        int | None, typer.Option(min=1, metavar="V", help="Which version.  [default: the latest]")
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="jsonl, csv or parquet.  [default: as the file's name says, else jsonl]",
        ),
    ] = None,
    audio: Annotated[
        bool, typer.Option("--audio", help="Write a .zip that also holds the audio.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write.  [default: standard output]")
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Write a version of a dataset to a file."""

    async def work(lab: LabClient) -> None:
        found = await lab.dataset(name)
        wanted = format_of(out, file_format)
        if out is None:
            write = sys.stdout.buffer.write
            await lab.export(found.dataset_id, version, wanted, write, audio=audio)
            return
        with _whole_file(out) as file:
            await lab.export(found.dataset_id, version, wanted, file.write, audio=audio)

    if out is not None and out.exists():
        raise typer.BadParameter(f"{out} exists already; name another file", param_hint="--out")
    with_lab(Way(url, data_dir, token), work)


@app.command("delete")
def delete_command(
    name: NameArgument,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Delete a dataset and all its versions. Refused while an experiment uses one of them."""

    async def work(lab: LabClient) -> None:
        found = await lab.dataset(name)
        await lab.delete_dataset(found.dataset_id)
        say(f"{found.name} ({found.dataset_id}) was deleted.")

    with_lab(Way(url, data_dir, token), work)


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears only when it is complete; a failure leaves nothing behind."""
    part = path.with_name(f"{path.name}.part")
    try:
        file = part.open("xb")
    except OSError as error:
        raise typer.BadParameter(
            f"{part} cannot be written ({error.strerror})", param_hint="--out"
        ) from None
    try:
        with file:
            yield file
        part.rename(path)
    except BaseException:
        part.unlink()
        raise
