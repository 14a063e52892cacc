"""Reading the settings: defaults, then the file, then the environment, then flags; later wins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import SettingsError
from dragoman.settings.rules import contradictions
from dragoman.settings.sources import (
    CONFIG_VARIABLE,
    Reading,
    read_environment,
    read_file,
    read_flags,
)
from dragoman.settings.tree import KEYS, Settings, nested, with_data_dir
from dragoman.settings.values import checked


@dataclass(frozen=True)
class Loaded:
    """The effective settings, and for every dotted key where its value came from."""

    settings: Settings
    sources: Mapping[str, str]


def load_settings(
    config_file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """The effective settings; raises SettingsError with a line for each problem.

    A file is read only if it is named, here or by DRAGOMAN_CONFIG. Flags are a tree such as
    ``{"server": {"port": 9000}}``; a flag that is None was not given.
    """
    environ = os.environ if environ is None else environ
    readings = [read_environment(environ), read_flags(flags or {})]
    path = config_file or environ.get(CONFIG_VARIABLE)
    if path:
        readings.insert(0, read_file(Path(path)))
    return _merged(readings)


def _merged(readings: list[Reading]) -> Loaded:
    problems: list[str] = []
    refused: set[str] = set()
    values: dict[str, Any] = {}
    sources = dict.fromkeys(KEYS, "default")
    for reading in readings:
        problems += reading.problems
        for given in reading.given:
            try:
                values[given.key.name] = checked(given)
            except ValueError as error:
                problems.append(str(error))
                refused.add(given.key.name)
            else:
                sources[given.key.name] = given.source
    settings = with_data_dir(Settings.model_validate(nested(values)))
    problems += contradictions(settings, sources, unknown=refused)
    if problems:
        raise SettingsError("\n".join(problems))
    return Loaded(settings, sources)
