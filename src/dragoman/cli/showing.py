"""How commands show what they found: one style of table for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Cell = object
"""What stands in a table: a text, a number, a styled text; None is shown as a dash."""

_PIPE_WIDTH = 400
"""Where no terminal gives a width, a line is wide enough for ids and sentences to be whole."""


def print_json(found: object) -> None:
    """Print it for a program."""
    typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str) -> None:
    """Print a table, or a sentence where there is nothing to show."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    if not table.row_count:
        typer.echo(empty)
        return
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(width=width, soft_wrap=False).print(table)


def print_facts(facts: Iterable[tuple[str, Cell]]) -> None:
    """Print what is known of one thing, a fact a line; what there is none of is left out."""
    known = [(name, value) for name, value in facts if value not in (None, "", (), [])]
    longest = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        typer.echo(f"{name:<{longest}}  {value}")


def _cell(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    # Not a plain string: rich would take what stands in brackets for a style.
    return Text("-" if value is None else str(value))
