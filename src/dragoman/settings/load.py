"""Reading the settings: defaults, then the file, then the environment, then flags; later wins.

Each reader lists the keys that its source sets, and the names in it that are not settings. Then
every value is checked by itself, and all of them together.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dragoman.errors import SettingsError
from dragoman.settings.kinds import as_toml, plain
from dragoman.settings.tree import (
    ENVIRONMENT_PREFIX,
    KEYS,
    LEVEL_SEPARATOR,
    SECTIONS,
    Key,
    Settings,
    contradictions,
    nearest,
    nested,
    value_of,
    with_data_dir,
)

CONFIG_VARIABLE = "DRAGOMAN_CONFIG"

OTHER_VARIABLES: Mapping[str, str] = {
    CONFIG_VARIABLE: "The settings file, if a command gets no `--config`.",
    "DRAGOMAN_TOKEN": "The API key of a node or a client that gets no `--token`.",
    "DRAGOMAN_TRACEBACK": "If set to 1, a failing command prints its traceback.",
    "DRAGOMAN_FUZZ_FRAMES": "How many frames the fuzz tests send.",
    "DRAGOMAN_FUZZ_SEED": "Which frames they send.",
    "DRAGOMAN_CHAOS_SCHEDULES": "How many fault schedules the chaos tests run.",
    "DRAGOMAN_CHAOS_FIRST_SEED": "The seed of the first schedule; the others count up from it.",
    "DRAGOMAN_CHAOS_SEED": "The seed of the only schedule to run.",
}
"""Variables with the prefix of settings that are not settings."""

# What Kubernetes and Docker links put into every container beside a service named dragoman.
_SERVICE_LINK = re.compile(
    r"DRAGOMAN_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)"
)
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp)://")


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


# --- where values come from -----------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """A value for a key, as a source gives it."""

    key: Key
    value: Any
    source: str
    strict: bool
    """Whether the source has types of its own, so that the text "8080" is not a number."""


@dataclass
class Reading:
    """What a source gives, and what is wrong with the source itself, one sentence each."""

    given: list[Given] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_file(path: Path) -> Reading:
    """What a TOML file sets."""
    source = f"file {path}"
    text = ""
    try:
        text = path.read_text(encoding="utf-8-sig")
        tree = tomllib.loads(text)
    except FileNotFoundError:
        reason = f"there is no such file; check the path after --config or in {CONFIG_VARIABLE}"
    except IsADirectoryError:
        reason = "this is a folder; name the settings file in it"
    except UnicodeDecodeError:
        reason = "this is not a text file in UTF-8; save it as one"
    except OSError as error:
        reason = f"the file cannot be read ({error.strerror}); check its permissions"
    except (ValueError, RecursionError) as error:  # TOML errors, endless numbers, endless nesting
        last_line = f"at line {len(text.splitlines())}, the last"
        where = str(error).replace("at end of document", last_line)
        reason = f"this is not TOML: {where}; correct that line"
    else:
        return _read_tree(tree, lambda _: source, strict=True)
    return Reading(problems=[f"{source}: {reason}."])


def read_environment(environ: Mapping[str, str]) -> Reading:
    """What the ``DRAGOMAN_`` variables set."""
    by_variable = {key.variable: key for key in KEYS.values()}
    by_underscores = {_one_underscore(variable): variable for variable in by_variable}
    reading = Reading()
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
            continue
        source = f"environment {variable}"
        key = by_variable.get(variable)
        if key is not None:
            reading.given.append(Given(key, _from_text(key, text), source, strict=False))
        elif not _is_service_link(variable, text):
            meant = by_underscores.get(_one_underscore(variable))
            if meant is None and (near := nearest(_dotted(variable), KEYS)):
                meant = KEYS[near].variable
            remedy = f"did you mean {meant}?" if meant else "unset it."
            reading.problems.append(f"{source}: there is no setting of this name; {remedy}")
    return reading


def read_flags(flags: Mapping[str, Any]) -> Reading:
    """What a command's flags set, as a tree; None stands for a flag that was not given."""
    return _read_tree(flags, _flag_of, strict=False)


def _flag_of(name: str) -> str:
    if name.startswith("log."):
        return "flag --" + name.replace(".", "-")
    return "flag --" + name.rpartition(".")[2].replace("_", "-")


def _one_underscore(variable: str) -> str:
    """Most people who mistype a variable write one underscore between table and key."""
    return variable.replace(LEVEL_SEPARATOR, "_")


def _dotted(variable: str) -> str:
    return variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace(LEVEL_SEPARATOR, ".")


def _is_service_link(variable: str, text: str) -> bool:
    if variable.endswith("_PORT") and _SERVICE_LINK_VALUE.match(text):
        return True
    return _SERVICE_LINK.fullmatch(variable) is not None


def _from_text(key: Key, text: str) -> Any:
    """A variable's text as lists and tables are written there: JSON, or ``a,b`` for a list."""
    if key.is_table or (key.is_list and text.lstrip().startswith("[")):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    if key.is_list:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _read_tree(tree: Mapping[str, Any], source: Callable[[str], str], *, strict: bool) -> Reading:
    reading = Reading()
    for name, value in _leaves(tree):
        if value is None:
            continue
        key = KEYS.get(name)
        if key is not None:
            reading.given.append(Given(key, value, source(name), strict))
        elif name in SECTIONS:
            reason = f"{name} is a section, not a value; write [{name}] and its keys below it"
            reading.problems.append(f"{source(name)}: {reason}.")
        else:
            meant = nearest(name, [*SECTIONS, *KEYS])
            remedy = f"did you mean {meant}?" if meant else "`dragoman config show` lists all keys."
            reading.problems.append(f"{source(name)}: {name} is not a known key; {remedy}")
    return reading


def _leaves(tree: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """A tree's values by dotted name, down to a key or to where it leaves the known sections."""
    for name, value in tree.items():
        full = f"{section}.{name}" if section else name
        if full in SECTIONS and isinstance(value, Mapping):
            yield from _leaves(value, full)
        else:
            yield full, value


# --- what is wrong with a value -------------------------------------------------------------------

_EXPECTED: Mapping[str, str] = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
    "model_type": "must be a table",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "mapping_type": "must be a table",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}
"""What a value must be, by the kind of pydantic error, filled from the error's own context."""


def checked(given: Given) -> Any:
    """The value in its key's type; raises ValueError with a line for each problem."""
    adapter = given.key.adapter()
    try:
        if given.strict:
            # As JSON: it has a form for lists and paths, and keeps text apart from numbers.
            return adapter.validate_json(json.dumps(given.value, default=str), strict=True)
        return adapter.validate_python(given.value)
    except ValidationError as error:
        lines = [_line(given, detail) for detail in error.errors(include_url=False)]
        raise ValueError("\n".join(lines)) from None


def _line(given: Given, detail: ErrorDetails) -> str:
    place = "".join(f"[{json.dumps(part)}]" for part in detail["loc"])
    value = detail["input"]
    template = _EXPECTED.get(detail["type"])
    reason = template.format_map(detail.get("ctx", {})) if template else f"({detail['msg']})"
    return (
        f"{given.source}: {given.key.name}{place} = {as_toml(value)} {reason}; "
        f"{_remedy(given, detail)}"
    )


def _remedy(given: Given, detail: ErrorDetails) -> str:
    if detail["type"] == "literal_error":
        words = detail["ctx"]["expected"].split("'")[1::2]
        close = get_close_matches(str(detail["input"]), words, n=1)
        if close:
            return f"did you mean {as_toml(close[0])}?"
    return f"the default is {given.key.leaf} = {as_toml(given.key.default)}."


# --- how the effective settings are shown ---------------------------------------------------------


def as_listing(loaded: Loaded) -> str:
    """A settings file with a comment on the source of every value."""
    paragraphs = []
    for section, keys in groupby(KEYS.values(), key=lambda key: key.section):
        rows = [
            (f"{key.leaf} = {as_toml(value_of(loaded.settings, key.name))}", key) for key in keys
        ]
        width = max(len(text) for text, _ in rows)
        lines = [f"{text:<{width}}  # {loaded.sources[key.name]}" for text, key in rows]
        paragraphs.append("\n".join([f"[{section}]", *lines]))
    return "\n\n".join(paragraphs)


@dataclass(frozen=True)
class SettingLine:
    """A setting as it may be shown: its values are plain JSON, passwords masked."""

    name: str
    value: Any
    default: Any
    meaning: str
    variable: str


def setting_lines(settings: Settings) -> list[SettingLine]:
    """Every setting, in the order in which they are documented."""
    return [
        SettingLine(
            key.name,
            plain(value_of(settings, key.name)),
            plain(key.default),
            key.meaning,
            key.variable,
        )
        for key in KEYS.values()
    ]


def as_tree(loaded: Loaded) -> dict[str, Any]:
    """The values as a tree of plain JSON."""
    return nested({name: plain(value_of(loaded.settings, name)) for name in KEYS})
