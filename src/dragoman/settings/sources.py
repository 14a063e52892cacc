"""Where settings come from: a TOML file, the environment, the flags of a command.

Each reader lists the keys that its source sets, and the names in it that are not settings. Other
modules check the values.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.settings.not_built import NOT_BUILT, SECTIONS_NOT_BUILT
from dragoman.settings.tree import (
    ENVIRONMENT_PREFIX,
    KEYS,
    LEVEL_SEPARATOR,
    SECTIONS,
    Key,
    nearest,
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
    reading = Reading()
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
            continue
        source = f"environment {variable}"
        key = by_variable.get(variable)
        if key is not None:
            reading.given.append(Given(key, _from_text(key, text), source, strict=False))
        elif (planned := NOT_BUILT.get(_dotted(variable))) is not None:
            if not planned.accepts_text(text):
                reading.problems.append(f"{source}: {planned.refusal(_dotted(variable), text)}")
        elif not _is_service_link(variable, text):
            meant = nearest(_dotted(variable), KEYS)
            remedy = f"did you mean {KEYS[meant].variable}?" if meant else "unset it."
            reading.problems.append(f"{source}: there is no setting of this name; {remedy}")
    return reading


def read_flags(flags: Mapping[str, Any]) -> Reading:
    """What a command's flags set, as a tree; None stands for a flag that was not given."""
    return _read_tree(flags, _flag_of, strict=False)


def _flag_of(name: str) -> str:
    return "flag --" + name.rpartition(".")[2].replace("_", "-")


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
        elif (planned := NOT_BUILT.get(name)) is not None:
            if not planned.accepts(value):
                reading.problems.append(f"{source(name)}: {planned.refusal(name, value)}")
        elif name in SECTIONS or name in SECTIONS_NOT_BUILT:
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
        known = full in SECTIONS or full in SECTIONS_NOT_BUILT
        if known and isinstance(value, Mapping):
            yield from _leaves(value, full)
        else:
            yield full, value
