"""What the lab's commands print: tables for people, JSON for programs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_PIPE_WIDTH = 200


def console() -> Console:
    """Where tables go; one that is no terminal is wide enough for ids to be whole."""
    return Console(width=None if Console().is_terminal else _PIPE_WIDTH)


def print_json(found: object) -> None:
    """Print it for a program."""
    typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
