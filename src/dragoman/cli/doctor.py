"""``dragoman doctor``: what is wrong with this machine or the settings, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragoman.cli.checkup import Finding, Level, examine

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
_PIPE_WIDTH = 240


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="F", help="Settings file (TOML).")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the server.  [default: .dragoman]"),
    ] = None,
    redis: Annotated[
        bool, typer.Option("--redis", help="Check Redis also when cluster.enabled is false.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Check this machine and the settings, and say what to do.

    Changes nothing. Exit code 1 when something would keep the server from working.
    """
    findings = examine(config, data_dir, with_redis=redis)
    sound = all(finding.level is not Level.FAIL for finding in findings)
    if as_json:
        report = msgspec.json.encode({"ok": sound, "checks": findings})
        typer.echo(msgspec.json.format(report).decode())
    else:
        _print(findings)
    if not sound:
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    table = Table("", "check", "found", "what to do", box=None)
    for finding in findings:
        table.add_row(
            Text(finding.level.value, style=_COLOURS[finding.level]),
            finding.check,
            Text(finding.found),
            Text(finding.remedy),
        )
    Console(width=None if Console().is_terminal else _PIPE_WIDTH).print(table)
