"""Reading what is deployed: compose files, and the commands that they start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
import yaml  # type: ignore[import-untyped]
from compose_spec import PyCompose

from dragoman.cli.app import command_line
from dragoman.settings import Settings, check_exposure, load_settings

REPOSITORY = Path(__file__).parents[3]
DEPLOY = REPOSITORY / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"


def compose_file(path: Path) -> dict[str, Any]:
    """A compose file that the Compose specification allows, with its aliases put in."""
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    PyCompose.from_json(json.dumps(found)).validate()
    return found


def check_command(words: list[str]) -> None:
    """Fail unless there is such a command with such options."""
    name, *rest = words
    group: Any = typer.main.get_command(command_line([name]))
    assert name in group.commands, f"there is no command {name}"
    command = group.commands[name]
    command.make_parser(typer.Context(command)).parse_args(rest)


def settings_of(environ: Mapping[str, str], config: Path | None = None) -> Settings:
    """What the program runs with in this environment; a variable that it does not know raises."""
    settings = load_settings(config, environ=environ).settings
    check_exposure(settings)
    return settings
