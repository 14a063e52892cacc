"""``dragoman keys``: create, list, rotate and revoke API keys, even while the server runs."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dragoman.auth import DEFAULT_TENANT, KeyRecord, KeyStore, Role
from dragoman.cli.audited import actor
from dragoman.cli.db import ConfigOption, DataDirOption, settings_for
from dragoman.cli.showing import JsonOption, print_json, print_table
from dragoman.clock import SystemClock
from dragoman.errors import InvalidMessage
from dragoman.observability import configure_logging
from dragoman.settings import masked
from dragoman.store import SchemaStatus, check, open_store, upgrade

_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)([smhd])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_MAX_OVERLAP_SECONDS = 366 * 24 * 3600

app = typer.Typer(
    name="keys", help="Create, list, rotate and revoke API keys.", no_args_is_help=True
)


@app.command("create")
def create_command(
    role: Annotated[Role, typer.Option(help="What the key may be used for.")],
    tenant: Annotated[
        str, typer.Option(metavar="T", help="The tenant that the key belongs to.")
    ] = DEFAULT_TENANT,
    node_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The only node that may use it (role node only)."),
    ] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print it once, alone on the last line: only its SHA-256 is kept."""
    try:
        asyncio.run(_create(role, tenant, node_id, _database_url(config, data_dir), as_json))
    except InvalidMessage as error:
        raise typer.BadParameter(error.message) from None


@app.command("list")
def list_command(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False
) -> None:
    """List every key ever created, without the keys themselves."""
    configure_logging("error", "console")
    asyncio.run(_list(settings_for(config, data_dir).store.database_url, as_json))


@app.command("rotate")
def rotate_command(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `list` shows.")],
    overlap: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How long the old key goes on working: 90s, 30m, 24h, 7d."
        ),
    ] = "24h",
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key in the place of another, and print it once, alone on the last line.

    The old key, and what is connected with it, goes on working for the overlap. Give the new key
    to its holder within that time.
    """
    seconds = _seconds(overlap)
    try:
        asyncio.run(_rotate(key_id, seconds, _database_url(config, data_dir), as_json))
    except InvalidMessage as error:
        raise typer.BadParameter(error.message) from None


@app.command("revoke")
def revoke_command(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `list` shows.")],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key for good. A running server refuses it within ten seconds."""
    asyncio.run(_revoke(key_id, _database_url(config, data_dir), as_json))


async def _create(
    role: Role, tenant: str, node_id: str | None, database_url: str, as_json: bool
) -> None:
    async with _keys(database_url) as keys:
        record, key = await keys.create(role, tenant, node_id)
    if as_json:
        print_json({**_shown(record), "key": key.reveal()})
        return
    typer.echo(
        f"Key {record.key_id} with role {record.role} for tenant {record.tenant}. "
        "Save it now: it is not shown again.",
        err=True,
    )
    typer.echo(key.reveal())


async def _rotate(key_id: str, seconds: float, database_url: str, as_json: bool) -> None:
    async with _keys(database_url) as keys:
        record, key = await keys.rotate(key_id, seconds)
        old = next(one for one in await keys.list() if one.key_id == record.replaces)
    if as_json:
        print_json({**_shown(record), "key": key.reveal(), "replaced": _shown(old)})
        return
    assert old.expires_at_ms is not None, "it was rotated"
    typer.echo(
        f"Key {record.key_id} replaces {old.key_id}, which works until "
        f"{_time(old.expires_at_ms)}. Save it now: it is not shown again.",
        err=True,
    )
    typer.echo(key.reveal())


async def _list(database_url: str, as_json: bool) -> None:
    records: Sequence[KeyRecord] = ()
    if check(database_url).state is not SchemaStatus.EMPTY:
        async with _keys(database_url) as keys:
            records = await keys.list()
    shown = [_shown(record) for record in records]
    if as_json:
        print_json(shown)
        return
    print_table(
        ("id", "role", "tenant", "node_id", "created", "expires", "replaces", "revoked"),
        (list(record.values()) for record in shown),
        # Without keys, the command may look at another database than the server's.
        empty=f"There are no keys in {masked(database_url)}; `dragoman keys create` creates one.",
    )


async def _revoke(key_id: str, database_url: str, as_json: bool) -> None:
    async with _keys(database_url) as keys:
        record = await keys.revoke(key_id)
    if as_json:
        print_json(_shown(record))
    else:
        typer.echo(f"Key {record.key_id} is revoked; servers refuse it within ten seconds.")


@asynccontextmanager
async def _keys(database_url: str) -> AsyncIterator[KeyStore]:
    async with await open_store(database_url) as store:
        yield KeyStore(store, SystemClock(), secrets.SystemRandom(), actor())


def _seconds(text: str) -> float:
    """A time such as ``24h``."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _UNIT_SECONDS[found[2]] if found else 0.0
    if not 0 < seconds <= _MAX_OVERLAP_SECONDS:
        raise typer.BadParameter(
            f"--overlap {text!r} is no time up to a year; write it like 90s, 30m, 24h or 7d."
        )
    return seconds


def _database_url(config: Path | None, data_dir: Path | None) -> str:
    """The settings' database, set up if it is empty: a key may come before the first server."""
    # What goes wrong is told in a sentence; the log would say it once more.
    configure_logging("error", "console")
    database_url = settings_for(config, data_dir).store.database_url
    if check(database_url).state is SchemaStatus.EMPTY:
        upgrade(database_url)
    return database_url


def _shown(record: KeyRecord) -> dict[str, str | None]:
    """What may be shown of a key: everything but the key itself."""
    return {
        "key_id": record.key_id,
        "role": record.role.value,
        "tenant": record.tenant,
        "node_id": record.node_id,
        "created_at": _time(record.created_at_ms),
        "expires_at": None if record.expires_at_ms is None else _time(record.expires_at_ms),
        "replaces": record.replaces,
        "revoked_at": None if record.revoked_at_ms is None else _time(record.revoked_at_ms),
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
