"""``dragoman cluster``: the instances of a cluster, its dead letters, and what it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from dragoman.cli.listed import View, Way
from dragoman.cli.server_client import (
    DataDirOption,
    ServerClient,
    TokenOption,
    UrlOption,
    with_server,
)
from dragoman.cli.showing import JsonOption, print_json, print_table
from dragoman.errors import NotFound

_FAILED = 1
_LETTERS = "/cluster/dead-letters"

LettersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Ids of letters, as `list` shows them.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All letters.")]

app = typer.Typer(
    name="cluster",
    help="Show a cluster's instances and dead letters, and check it.",
    no_args_is_help=True,
)
dlq = typer.Typer(
    help="Dead letters: notes that an instance could not handle.", no_args_is_help=True
)
app.add_typer(dlq, name="dlq")


@app.command("status")
def status_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    expect: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Fail when fewer instances than this are alive."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show every instance. Exit code 1 when an instance is gone or there are dead letters."""

    async def work(server: ServerClient) -> View:
        return await server.ask(View, "GET", "/cluster")

    cluster = with_server(work, url, data_dir, token)
    instances: list[View] = cluster["instances"]
    if json:
        print_json(cluster)
    else:
        _print_instances(instances)
    if cluster.get("disagreement"):
        typer.echo(f"warning: {cluster['disagreement']}", err=True)
    alive = sum(seen["alive"] for seen in instances)
    if expect is not None and alive < expect:
        are = "instance is" if alive == 1 else "instances are"
        typer.echo(f"error: {alive} {are} alive, {expect} expected.", err=True)
        raise typer.Exit(_FAILED)
    if not all(seen["alive"] and not seen["dead_letters"] for seen in instances):
        raise typer.Exit(_FAILED)


@app.command("check")
def check_command(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="F", help="Settings file (TOML).")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what can be.")] = False,
    wait: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="Between two looks: what is only found once was on its way.",
        ),
    ] = 5.0,
    json: JsonOption = False,
) -> None:
    """Check that what Redis keeps fits together: slots and attempts, open jobs and records.

    Reads Redis itself, by the settings; the instances may go on working. Exit code 1 when
    something does not fit, or could not be repaired.
    """
    # Needs the extra `cluster`, which other commands do without, and the database.
    from dragoman.auth import DEFAULT_TENANT
    from dragoman.cli.audited import entry_of, record_afterwards
    from dragoman.cli.cluster_check import check_cluster
    from dragoman.settings import load_settings

    report = check_cluster(config, repair=repair, wait_seconds=wait)
    record_afterwards(
        load_settings(config).settings.store.database_url,
        [
            entry_of(
                "cluster.repair",
                subject=each.subject,
                tenant=DEFAULT_TENANT,
                damage=each.damage.value,
                found=each.found,
            )
            for each in report.findings
            if each.repaired
        ],
    )
    if json:
        print_json(report)
    else:
        print_table(
            ("damage", "subject", "found", ""),
            (
                (
                    each.damage.value,
                    each.subject,
                    each.found,
                    "repaired" if each.repaired else "",
                )
                for each in report.findings
            ),
            empty="Everything fits together.",
        )
    if not report.ok:
        raise typer.Exit(_FAILED)


@dlq.command("list")
def list_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """List dead letters, oldest first."""

    letters = with_server(_letters, url, data_dir, token)
    if json:
        print_json(letters)
    else:
        _print_letters(letters)


@dlq.command("replay")
def replay_command(
    letters: LettersArgument = None,
    every: AllOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Put dead letters into their instances' inboxes again."""
    _for_each("POST", "/replay", "replayed", letters, every, json, (url, data_dir, token))


@dlq.command("drop")
def drop_command(
    letters: LettersArgument = None,
    every: AllOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Delete dead letters. A note is only a hint: the sweep finds what it was about."""
    _for_each("DELETE", "", "dropped", letters, every, json, (url, data_dir, token))


async def _letters(server: ServerClient) -> list[View]:
    """Every dead letter, oldest first."""
    return [letter async for letter in server.pages(View, _LETTERS)]


def _for_each(
    method: str,
    action: str,
    done: str,
    letters: list[str] | None,
    every: bool,
    as_json: bool,
    way: Way,
) -> None:
    """Do something with each letter; one that fails does not keep the others back."""
    if bool(letters) == every:
        raise typer.BadParameter("Give the ids of letters, or --all.")

    async def work(server: ServerClient) -> int:
        code = 0
        handled: list[str] = []
        named = letters or [letter["letter_id"] for letter in await _letters(server)]
        for letter_id in named:
            try:
                path = f"{_LETTERS}/{quote(letter_id, safe='')}{action}"
                await server.ask(Any, method, path)
            except NotFound as error:
                typer.echo(f"error: {error.message}", err=True)
                code = _FAILED
            else:
                handled.append(letter_id)
                if not as_json:
                    typer.echo(f"{done} {letter_id}")
        if as_json:
            print_json({done: handled})
        return code

    raise typer.Exit(with_server(work, *way))


def _print_instances(instances: list[View]) -> None:
    print_table(
        ("instance", "state", "nodes", "sessions", "inbox", "in work", "dead", "since"),
        (
            (
                seen["instance_id"],
                ("draining" if seen["draining"] else "up") if seen["alive"] else "gone",
                seen["nodes"],
                seen["sessions"],
                seen["inbox_length"],
                seen["pending"],
                seen["dead_letters"],
                seen["started_at"],
            )
            for seen in instances
        ),
        empty="There are no instances.",
    )


def _print_letters(letters: list[View]) -> None:
    print_table(
        ("letter", "instance", "buried", "reason", "tries", "note"),
        (
            (
                letter["letter_id"],
                letter["instance_id"],
                letter["buried_at"],
                letter["reason"],
                letter["deliveries"],
                "unreadable" if letter["note"] is None else _in_words(letter["note"]),
            )
            for letter in letters
        ),
        empty="There are no dead letters.",
    )


def _in_words(note: View) -> str:
    return ", ".join(f"{name}={value}" for name, value in note.items() if value is not None)
