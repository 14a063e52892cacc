"""Things that a server lists: nodes, sessions and jobs are listed, shown and acted on alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dragoman.cli.server_client import ServerClient, with_server
from dragoman.cli.showing import Cell, print_facts, print_json, print_table

View = dict[str, Any]
"""A thing as the server sends it: a newer server may say more than this program knows."""

Way = tuple[str | None, Path | None, str | None]
"""The options that name a server: its address, its data folder, and the API key."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind of thing: where the server has it, and how it is shown to people."""

    path: str
    columns: Mapping[str, Callable[[View], Cell]]
    """The columns of the list, by their headings."""
    facts: Callable[[View], Iterable[tuple[str, Cell]]]
    """What is shown of one thing, line by line."""
    empty: str
    """What is said when there is none."""

    def show_all(self, way: Way, as_json: bool, *, most: int | None = None, **params: str) -> None:
        """Print every thing in a table, or as many as `most`."""

        async def work(server: ServerClient) -> list[View]:
            return [one async for one in server.pages(View, self.path, most=most, **params)]

        found = with_server(work, *way)
        if as_json:
            print_json(found)
            return
        rows = ([value(one) for value in self.columns.values()] for one in found)
        print_table(tuple(self.columns), rows, empty=self.empty)

    def show_one(
        self, way: Way, as_json: bool, thing_id: str, method: str = "GET", **request: Any
    ) -> None:
        """Send a request about one thing, and print the thing as it is afterwards."""
        found = self.ask(way, thing_id, method, **request)
        if as_json:
            print_json(found)
        else:
            print_facts(self.facts(found))

    def ask(
        self, way: Way, thing_id: str, method: str = "GET", action: str = "", **request: Any
    ) -> View:
        """What the server answers to a request about one thing."""
        path = f"{self.path}/{quote(thing_id, safe='')}{action}"

        async def work(server: ServerClient) -> View:
            return await server.ask(View, method, path, **request)

        return with_server(work, *way)
