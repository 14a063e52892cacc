"""``dragoman doctor``: checks this machine and the settings, and suggests fixes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from dragoman.cli.checkup import CheckupFinding, Level, examine
from dragoman.cli.showing import JsonOption, print_json, print_table

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="F", help="Settings file (TOML).")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The server's data folder.  [default: .dragoman]"),
    ] = None,
    redis: Annotated[
        bool, typer.Option("--redis", help="Check Redis even when cluster.enabled is false.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check this machine and the settings, and suggest fixes.

    Changes nothing. Exit code 1 when a problem would keep the server from working.
    """
    findings = examine(config, data_dir, with_redis=redis)
    sound = all(finding.level is not Level.FAIL for finding in findings)
    if as_json:
        print_json({"ok": sound, "checks": findings})
    else:
        _print(findings)
    if not sound:
        raise typer.Exit(1)


def _print(findings: Sequence[CheckupFinding]) -> None:
    print_table(
        ("", "check", "found", "what to do"),
        (
            (
                Text(finding.level.value, style=_COLOURS[finding.level]),
                finding.check,
                finding.found,
                finding.remedy,
            )
            for finding in findings
        ),
        empty="There was nothing to check.",
    )
