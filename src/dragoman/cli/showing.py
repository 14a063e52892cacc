"""How commands print what they found: tables of one style for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from dragoman.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Cell = object
"""A value in a table: a text, a number, a styled text; None is shown as a dash."""

_PIPE_WIDTH = 400
"""The width where there is no terminal: ids and sentences stay on one line."""


def counted(number: int, noun: str) -> str:
    """How many there are: ``1 job``, ``2 jobs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text that may hold what others wrote: no character of it steers the terminal."""
    typer.echo(printable(text), err=err, nl=nl)


def print_json(found: object) -> None:
    """Print a value as JSON."""
    typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str) -> None:
    """Print a table, or the sentence `empty` when there are no rows."""
    from rich.table import Table  # here: most commands print no table, and rich starts slowly

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    if not table.row_count:
        typer.echo(empty)
        return
    console().print(table)


def console() -> Console:
    """Standard output, as wide as its terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, soft_wrap=False)


def print_facts(facts: Iterable[tuple[str, Cell]]) -> None:
    """Print the facts about one thing, one a line; empty ones are left out."""
    known = [(name, value) for name, value in facts if value not in (None, "", (), [])]
    longest = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        say(f"{name:<{longest}}  {value}")


def _cell(value: Cell) -> Text:
    from rich.text import Text

    if isinstance(value, Text):
        return value
    # Not a plain string: rich would read words in brackets as a style.
    return Text("-" if value is None else printable(str(value)))
