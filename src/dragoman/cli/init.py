"""``dragoman init``: files to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.experiment.beginning import Beginning, begin_experiment
from dragoman.cli.lab.access import DataDirOption
from dragoman.data_folder import find_server
from dragoman.errors import SettingsError
from dragoman.settings import load_settings

app = typer.Typer(
    name="init",
    help="Write files to begin with: an experiment for your data.",
    no_args_is_help=True,
)


@app.callback()
def init() -> None:
    """Write files to begin with: an experiment for your data."""


@app.command("experiment")
def experiment_command(
    dataset: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The dataset: .jsonl, .csv or .parquet.  [default: the one in this folder; a "
            "sample if there is none]",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="The kind of target.  [default: recorded if a column holds outputs, else python]",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path(
        "experiment.toml"
    ),
    data_dir: DataDirOption = None,
) -> None:
    """Write an experiment file for what is at hand; it runs as it is.

    No file is overwritten.
    """
    settings = load_settings(None, {"server": {"data_dir": data_dir}}).settings
    server = find_server(settings.server.data_dir)
    made = begin_experiment(Beginning(out, dataset, target, None if server is None else server.url))
    if not out.parent.is_dir():
        raise SettingsError(f"The folder {out.parent} does not exist.")
    for path in made.files:
        if path.exists():
            raise SettingsError(f"{path} exists already; name another file with --out, or move it.")
    for path, content in made.files.items():
        path.write_bytes(content)
        typer.echo(f"Wrote {path}.")
    for note in made.notes:
        typer.echo(note)
    typer.echo(f"To run it: dragoman experiment run {out}")
