"""``dragoman db``: upgrade, check and back up the database."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.showing import JsonOption, print_json
from dragoman.clock import SystemClock
from dragoman.errors import StoreError
from dragoman.lab.audio import audio_folder_of
from dragoman.settings import Settings, load_settings
from dragoman.store import (
    SchemaState,
    SchemaStatus,
    ask_server,
    backup,
    check,
    find_damage,
    upgrade,
)

app = typer.Typer(name="db", help="Upgrade, check and back up the database.", no_args_is_help=True)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="F", help="Settings file (TOML).")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="The server's data folder."),
]

_VERDICTS = {
    SchemaStatus.UP_TO_DATE: "The schema is up to date ({current}).",
    SchemaStatus.OUTDATED: (
        "The schema is {current} and this program needs {head}; run `dragoman db upgrade`."
    ),
    SchemaStatus.NEWER: (
        "The schema is {current}; a newer version of Dragoman wrote it, and this one knows up to "
        "{head}. Install the newer version, or restore a backup."
    ),
    SchemaStatus.EMPTY: "There is no schema yet; run `dragoman db upgrade`.",
}


def settings_for(config: Path | None, data_dir: Path | None) -> Settings:
    """The settings, which name the database that a command works on."""
    return load_settings(config, flags={"server": {"data_dir": data_dir}}).settings


@app.command("upgrade")
def upgrade_command(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False
) -> None:
    """Upgrade the database to this program's schema, or set up an empty one."""
    before = upgrade(settings_for(config, data_dir).store.database_url)
    if as_json:
        print_json({"before": before.current, "after": before.head})
    elif before.state is SchemaStatus.UP_TO_DATE:
        typer.echo(f"The schema is already up to date ({before.head}).")
    else:
        typer.echo(f"The schema was upgraded from {before.current or 'nothing'} to {before.head}.")


@app.command("check")
def check_command(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False
) -> None:
    """Check that the database is undamaged and fits this program; exit code 1 if not."""
    database_url = settings_for(config, data_dir).store.database_url
    found = check(database_url)
    damage = [] if found.state is SchemaStatus.EMPTY else find_damage(database_url)
    fits = found.state is SchemaStatus.UP_TO_DATE
    well = fits and not damage
    server = ask_server(database_url) if well else None
    if as_json:
        print_json(
            {
                "ok": well,
                "state": found.state,
                "current": found.current,
                "head": found.head,
                "damage": damage,
                "server": None if server is None else f"{server.product} {server.version}",
            }
        )
    else:
        typer.echo(_verdict(found), err=not fits)
        for problem in damage:
            typer.echo(f"The file is damaged: {problem}. Restore a backup.", err=True)
        if well:
            sound = "The file is undamaged."
            typer.echo(sound if server is None else f"{server.product} {server.version} answers.")
    if not well:
        raise typer.Exit(1)


@app.command("backup")
def backup_command(
    target: Annotated[
        Path | None,
        typer.Argument(help="File to write, or a folder.  [default: a dated file in DIR]"),
    ] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the database to a new file. The copy is consistent even while the server runs.

    The recordings of datasets are copied to a folder beside it, TARGET.lab-audio. Use pg_dump for a
    PostgreSQL database, mariadb-dump for MariaDB.
    """
    settings = settings_for(config, data_dir)
    if target is None:
        target = settings.server.data_dir
    if target.is_dir():
        target = target / _dated_name()
    audio_folder = target.with_name(f"{target.name}.lab-audio")
    if audio_folder.exists():
        raise StoreError(f"{audio_folder} exists already; name another file, or remove the folder.")
    backup(settings.store.database_url, target)
    # After the database: what it names is there, unless a dataset was deleted since.
    recordings = audio_folder_of(settings.server.data_dir).copy_to(audio_folder)
    if as_json:
        found: dict[str, object] = {"file": str(target), "bytes": target.stat().st_size}
        audio = {"audio_folder": str(audio_folder), "recordings": recordings}
        print_json(found | audio if recordings else found)
        return
    typer.echo(f"The database was copied to {target}.")
    if recordings:
        typer.echo(f"The recordings ({recordings:,} files) were copied to {audio_folder}.")


def _verdict(found: SchemaState) -> str:
    return _VERDICTS[found.state].format(current=found.current, head=found.head)


def _dated_name() -> str:
    moment = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    return f"dragoman-{moment:%Y%m%dT%H%M%S%f}Z.db"
