"""``dragoman config``: what is set, where it came from, and whether a file is fine."""

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
    """Show every setting with its effective value and where it came from.

    The listing is itself a settings file. Passwords in addresses are shown as stars.
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
    """Say whether a settings file is fine by itself, whatever the environment holds."""
    load_settings(file, environ={})
    if as_json:
        print_json({"file": str(file), "ok": True})
    else:
        typer.echo(f"{file} is fine.")
