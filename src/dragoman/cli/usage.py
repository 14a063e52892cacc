"""``dragoman usage``: what tenants have used, by day."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import typer

from dragoman.cli.listed import Listed
from dragoman.cli.server_client import (
    DataDirOption,
    ServerClient,
    TokenOption,
    UrlOption,
    with_server,
)
from dragoman.cli.showing import JsonOption


def _checked_day(text: str | None) -> str | None:
    if text is not None:
        try:
            date.fromisoformat(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a day; write it like 2026-01-31.") from None
    return text


def usage(
    first: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DAY", help="The first day, as 2026-01-31.", callback=_checked_day
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="DAY", help="The last day, which is included.", callback=_checked_day
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="T", help="One tenant only (operators).")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Print what tenants have used, by day.

    Days are those of UTC. An operator sees every tenant, a client its own.
    """
    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other", param_hint="--csv")
    given = {"from": first, "to": last, "tenant_id": tenant}
    asked = {name: value for name, value in given.items() if value is not None}
    if as_csv:

        async def work(server: ServerClient) -> str:
            return await server.text("/usage", params={**asked, "format": "csv"})

        typer.echo(with_server(work, url, data_dir, token), nl=False)
        return
    DAYS.show_all((url, data_dir, token), as_json, most=None, **asked)


DAYS = Listed(
    path="/usage",
    columns={
        "day": lambda one: one["day"],
        "tenant": lambda one: one["tenant_id"],
        "jobs": lambda one: one["jobs"],
        "audio s": lambda one: f"{one['audio_seconds']:.1f}",
        "characters": lambda one: one["characters"],
        "tokens in": lambda one: one["tokens_in"],
        "tokens out": lambda one: one["tokens_out"],
    },
    facts=lambda one: one.items(),
    empty="Nothing was used yet.",
)
