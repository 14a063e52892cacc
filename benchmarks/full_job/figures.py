"""Figures in rows and columns, for the screen and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table


@dataclass
class Figures:
    """One table, and what has to be said about it."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def drawn(self) -> Table:
        table = Table(title=self.title, title_justify="left", caption_justify="left")
        table.caption = "\n".join(self.notes) or None
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        rules = ("---", *("---:" for _ in self.columns[1:]))
        lines = [f"| {' | '.join(cells)} |" for cells in (self.columns, rules, *self.rows)]
        return "\n".join([f"### {self.title}", "", *lines, "", *(f"{n}\n" for n in self.notes)])
