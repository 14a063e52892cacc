"""``dragoman audit``: what operators did, and how it ended."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.listed import Listed
from dragoman.cli.server_client import DataDirOption, TokenOption, UrlOption
from dragoman.cli.showing import JsonOption


def audit(
    actor: Annotated[str | None, typer.Option(metavar="ID", help="Only what this key did.")] = None,
    action: Annotated[
        str | None, typer.Option(metavar="A", help="Only this action, as node.drain.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="ID", help="Only what was done to this.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(metavar="O", help="Only what ended so: done, refused, failed.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Not before, as 2026-01-31.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only before this time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")] = 100,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Print what operators did, newest first.

    Only operators may read it.
    """
    given = {
        "actor": actor,
        "action": action,
        "subject": subject,
        "outcome": outcome,
        "from": since,
        "to": until,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    ENTRIES.show_all((url, data_dir, token), as_json, most=limit, **asked)


ENTRIES = Listed(
    path="/audit",
    columns={
        "time": lambda one: one["at"],
        "actor": lambda one: one["actor"],
        "action": lambda one: one["action"],
        "subject": lambda one: one["subject"],
        "outcome": lambda one: one["outcome"],
        "address": lambda one: one["address"],
    },
    facts=lambda one: one.items(),
    empty="Nothing was done yet.",
)
