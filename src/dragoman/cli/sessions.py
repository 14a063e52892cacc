"""``dragoman sessions``: list, show and end sessions, without what is said in them."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.listed import Listed
from dragoman.cli.server_client import DataDirOption, TokenOption, UrlOption
from dragoman.cli.showing import JsonOption

app = typer.Typer(name="sessions", help="List, show and end sessions.", no_args_is_help=True)

SessionArgument = Annotated[str, typer.Argument(metavar="ID", help="The session's id.")]

SESSIONS = Listed(
    path="/sessions",
    columns={
        "session": lambda session: session["session_id"],
        "tenant": lambda session: session["tenant_id"],
        "from": lambda session: session["src_lang"],
        "to": lambda session: " ".join(session["tgt_langs"]),
        "state": lambda session: session["state"],
        "utterances": lambda session: session["utterances"],
        "in flight": lambda session: session["in_flight"],
        "instance": lambda session: session["instance_id"],
    },
    facts=lambda session: [
        ("session", session["session_id"]),
        ("tenant", session["tenant_id"]),
        ("state", session["state"]),
        ("from", session["src_lang"]),
        ("to", " ".join(session["tgt_langs"])),
        ("utterances", f"{session['utterances']}, {session['in_flight']} in flight"),
        ("instance", session["instance_id"]),
    ],
    empty="No session is open.",
)


@app.command("list")
def list_command(
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List the open sessions of the key's tenant; an operator sees those of every tenant."""
    SESSIONS.show_all((url, data_dir, token), as_json)


@app.command("show")
def show_command(
    session_id: SessionArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show a session."""
    SESSIONS.show_one((url, data_dir, token), as_json, session_id)


@app.command("cancel")
def cancel_command(
    session_id: SessionArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """End a session: close its client's connection and cancel its jobs."""
    SESSIONS.show_one((url, data_dir, token), as_json, session_id, "DELETE")
