"""``dragoman glossary``: list, set, remove and import a tenant's terms."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dragoman.cli.listed import Listed, View
from dragoman.cli.server_client import (
    DataDirOption,
    ServerClient,
    TokenOption,
    UrlOption,
    with_server,
)
from dragoman.cli.showing import JsonOption, print_json

app = typer.Typer(
    name="glossary",
    help="List, set, remove and import a tenant's terms. A term is a word to hear, and perhaps a "
    "translation to force.",
    no_args_is_help=True,
)

TermArgument = Annotated[str, typer.Argument(metavar="TERM", help="The term.")]
SourceOption = Annotated[
    str, typer.Option("--from", metavar="LANG", help="The language of the term.")
]
TargetOption = Annotated[
    str | None, typer.Option("--to", metavar="LANG", help="The language of the translation.")
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="T", help="Another tenant's glossary (operators only)."),
]

_AT_ONCE = 1000
_COLUMNS = ("src_lang", "tgt_lang", "term", "translation")


@app.command("list")
def list_command(
    source: Annotated[
        str | None, typer.Option("--from", metavar="LANG", help="Only terms of this language.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", metavar="LANG", help="Only translations into this one.")
    ] = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List the tenant's terms."""
    asked = _given(src_lang=source, tgt_lang=target, tenant_id=tenant)
    TERMS.show_all((url, data_dir, token), as_json, most=None, **asked)


@app.command("set")
def set_command(
    term: TermArgument,
    translation: Annotated[
        str | None,
        typer.Argument(metavar="[TRANSLATION]", help="What it must be; left out: only hear it."),
    ] = None,
    source: SourceOption = ...,  # type: ignore[assignment]
    target: TargetOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Set a term, or replace it: a word to hear, and with a translation one to force."""
    entry = _given(src_lang=source, tgt_lang=target, term=term, translation=translation)
    found = with_server(lambda server: _put(server, [entry], tenant), url, data_dir, token)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"The glossary has {_shown(entry)}.")


@app.command("remove")
def remove_command(
    term: TermArgument,
    source: SourceOption,
    target: TargetOption = None,
    tenant: TenantOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Remove a term."""
    asked = _given(src_lang=source, tgt_lang=target, term=term, tenant_id=tenant)

    async def work(server: ServerClient) -> None:
        await server.do("DELETE", "/glossary", params=asked)

    with_server(work, url, data_dir, token)
    typer.echo(f"The glossary no longer has {term}.")


@app.command("import")
def import_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A CSV file with a header, or a JSONL file; columns term, translation, src_lang "
            "and tgt_lang.",
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="LANG", help="The language of terms that name none."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--to", metavar="LANG", help="That of translations that name none."),
    ] = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Set every term of a file; 1,000 terms at a time are set whole or not at all."""
    entries = [_with_languages(row, source, target) for row in _rows(file)]
    if not entries:
        raise typer.BadParameter(f"{file} holds no terms", param_hint="FILE")

    async def work(server: ServerClient) -> int:
        for start in range(0, len(entries), _AT_ONCE):
            await _put(server, entries[start : start + _AT_ONCE], tenant)
        return len(entries)

    count = with_server(work, url, data_dir, token)
    if as_json:
        print_json({"set": count})
    else:
        typer.echo(f"{count:,} terms were set.")


async def _put(server: ServerClient, entries: list[View], tenant: str | None) -> View:
    body = {"items": entries} if tenant is None else {"items": entries, "tenant_id": tenant}
    return await server.ask(View, "PUT", "/glossary", json=body)


def _rows(file: Path) -> Iterator[View]:
    try:
        if file.suffix.lower() in (".jsonl", ".ndjson"):
            with file.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield _row(msgspec.json.decode(line, type=dict[str, Any]), number, file)
        else:
            with file.open(encoding="utf-8-sig", newline="") as lines:
                for number, row in enumerate(csv.DictReader(lines), 2):
                    yield _row({k: v for k, v in row.items() if v}, number, file)
    except (msgspec.MsgspecError, UnicodeError, csv.Error) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="FILE") from None


def _row(row: View, number: int, file: Path) -> View:
    unknown = sorted(str(name) for name in row if name not in _COLUMNS)
    if unknown or not row.get("term"):
        what = f"has {unknown[0]!r}" if unknown else "has no term"
        raise typer.BadParameter(
            f"line {number} of {file} {what}; the columns are {', '.join(_COLUMNS)}",
            param_hint="FILE",
        )
    return row


def _with_languages(row: View, source: str | None, target: str | None) -> View:
    entry = {**_given(src_lang=source), **row}
    if "translation" in entry:
        entry = {**_given(tgt_lang=target), **entry}
    if "src_lang" not in entry:
        raise typer.BadParameter(
            f"the term {entry['term']!r} has no src_lang; name it with --from", param_hint="--from"
        )
    return entry


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _shown(entry: View) -> str:
    translation = entry.get("translation")
    return f"{entry['term']} -> {translation}" if translation else str(entry["term"])


TERMS = Listed(
    path="/glossary",
    columns={
        "from": lambda one: one["src_lang"],
        "to": lambda one: one["tgt_lang"],
        "term": lambda one: one["term"],
        "translation": lambda one: one["translation"],
    },
    facts=lambda one: one.items(),
    empty="The glossary is empty. `dragoman glossary set` adds a term.",
)
