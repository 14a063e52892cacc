"""``dragoman config``: the effective settings, their sources, and whether a file is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.showing import JsonOption, print_json
from dragoman.settings import as_listing, as_tree, load_settings

app = typer.Typer(
    no_args_is_help=True, help="Show the effective settings, or check a settings file."
)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The settings file, in TOML."),
]


@app.command()
def show(
    config: ConfigFile = None,
    as_json: JsonOption = False,
) -> None:
    """Show every setting with its effective value and its source.

    The output is itself a settings file. Passwords in addresses are shown as stars.
    """
    loaded = load_settings(config)
    if as_json:
        print_json({"settings": as_tree(loaded), "sources": dict(loaded.sources)})
    else:
        typer.echo(as_listing(loaded))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The settings file, in TOML.")],
    as_json: JsonOption = False,
) -> None:
    """Check a settings file on its own; environment variables are ignored."""
    load_settings(file, environ={})
    if as_json:
        print_json({"file": str(file), "ok": True})
    else:
        typer.echo(f"{file} is valid.")
