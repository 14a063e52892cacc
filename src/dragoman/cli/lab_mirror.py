"""``dragoman lab``: look after the lab's columnar mirror."""

from __future__ import annotations

import asyncio

import typer

from dragoman.cli.lab.access import DataDirOption, TokenOption, UrlOption, Way, with_lab
from dragoman.cli.lab.client import LabClient

app = typer.Typer(name="lab", help="Look after the lab's columnar mirror.", no_args_is_help=True)

_LOOK_SECONDS = 0.5


@app.callback()
def lab() -> None:
    """Look after the lab's columnar mirror."""


@app.command("rebuild-mirror")
def rebuild_mirror_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Throw the columnar copy of results away and make it anew from the database.

    Nothing is lost: the database has everything, and answers meanwhile. With a running server the
    server does it, because one process owns the copy.
    """

    async def work(lab: LabClient) -> None:
        shown = await lab.mirror(rebuild=True)
        while not shown.ready or shown.lag_rows:
            await asyncio.sleep(_LOOK_SECONDS)
            shown = await lab.mirror()
        typer.echo("The mirror has been made anew, and is up to date.")

    with_lab(Way(url, data_dir, token, mirrored=True), work)
