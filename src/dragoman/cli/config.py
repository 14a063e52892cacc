"""``dragoman config``: what is set, where it came from, and whether a file is fine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dragoman.settings import Loaded, as_listing, as_tree, load_settings

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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of TOML.")
    ] = False,
) -> None:
    """Show every setting with its effective value and where it came from.

    The listing is itself a settings file. Passwords in addresses are shown as stars.
    """
    loaded = load_settings(config)
    typer.echo(_json(loaded) if as_json else as_listing(loaded))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The settings file, in TOML.")],
) -> None:
    """Say whether a settings file is fine by itself, whatever the environment holds."""
    load_settings(file, environ={})
    typer.echo(f"{file} is fine.")


def _json(loaded: Loaded) -> str:
    shown = {"settings": as_tree(loaded), "sources": dict(loaded.sources)}
    return json.dumps(shown, indent=2, ensure_ascii=False)
