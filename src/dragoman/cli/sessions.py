"""``dragoman sessions``: list, show and end sessions, without what is said in them."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from dragoman.cli.server_client import (
    DataDirOption,
    ServerClient,
    TokenOption,
    UrlOption,
    with_server,
)
from dragoman.cli.showing import JsonOption, print_facts, print_json, print_table

app = typer.Typer(name="sessions", help="List, show and end sessions.", no_args_is_help=True)

View = dict[str, Any]

SessionArgument = Annotated[str, typer.Argument(metavar="ID", help="The session's id.")]


@app.command("list")
def list_command(
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List the open sessions of the key's tenant; an operator sees those of every tenant."""

    async def work(server: ServerClient) -> list[View]:
        return [session async for session in server.pages(View, "/sessions")]

    sessions = with_server(work, url, data_dir, token)
    if as_json:
        print_json(sessions)
        return
    print_table(
        ("session", "tenant", "from", "to", "state", "utterances", "in flight", "instance"),
        (
            (
                session["session_id"],
                session["tenant_id"],
                session["src_lang"],
                " ".join(session["tgt_langs"]),
                session["state"],
                session["utterances"],
                session["in_flight"],
                session["instance_id"],
            )
            for session in sessions
        ),
        empty="No session is open.",
    )


@app.command("show")
def show_command(
    session_id: SessionArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show a session."""
    _ask("GET", session_id, as_json, (url, data_dir, token))


@app.command("cancel")
def cancel_command(
    session_id: SessionArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """End a session: close its client's connection and cancel its jobs."""
    _ask("DELETE", session_id, as_json, (url, data_dir, token))


def _ask(method: str, session_id: str, as_json: bool, way: tuple[Any, Any, Any]) -> None:
    async def work(server: ServerClient) -> View:
        return await server.ask(View, method, f"/sessions/{quote(session_id, safe='')}")

    session = with_server(work, *way)
    if as_json:
        print_json(session)
        return
    print_facts(
        [
            ("session", session["session_id"]),
            ("tenant", session["tenant_id"]),
            ("state", session["state"]),
            ("from", session["src_lang"]),
            ("to", " ".join(session["tgt_langs"])),
            ("utterances", f"{session['utterances']}, {session['in_flight']} in flight"),
            ("instance", session["instance_id"]),
        ]
    )
