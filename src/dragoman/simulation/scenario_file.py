"""A scenario as a TOML file describes it: read with every mistake named, and written."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import SettingsError
from dragoman.simulation.distributions import Distribution, read_distribution
from dragoman.simulation.measured import read_measured
from dragoman.simulation.scenario import (
    Fault,
    FaultKind,
    FleetGroup,
    InputKind,
    Scenario,
    Traffic,
    TrafficKind,
)
from dragoman.spelling import nearest

T = TypeVar("T")
K = TypeVar("K", bound=StrEnum)

Read = Callable[[object, Path], Any]
"""Reads a value; raises ValueError that says what it must be. Paths are relative to the folder."""

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_LANGUAGE = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MOST_INSTANCES = 16


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file; raises SettingsError that names the file, the key and the remedy."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: the file is not UTF-8; save it as UTF-8 text.") from error
    except OSError as error:
        raise SettingsError(
            f"{path}: the file cannot be read ({error.strerror}); `dragoman simulate --example`"
            " prints one to begin with."
        ) from error
    return parse_scenario(text, name=path.stem, source=str(path), folder=path.parent)


def parse_scenario(
    text: str, *, name: str = "scenario", source: str = "scenario", folder: Path | None = None
) -> Scenario:
    """The scenario in a text; `source` is what messages call it."""
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source}: this is not TOML ({error}).") from error
    return _Reader(source, folder or Path()).scenario(written, name)


class _Reader:
    """Reads the tables of one file."""

    def __init__(self, source: str, folder: Path) -> None:
        self._source = source
        self._folder = folder

    def scenario(self, written: Mapping[str, Any], name: str) -> Scenario:
        for key in written:
            if key not in _TABLES:
                raise self._unknown("", key, _TABLES)
        whole = self._table("[simulation]", written.get("simulation", {}), _SIMULATION)
        fleet = self._list("fleet", written, _FLEET, FleetGroup)
        traffic = self._list("traffic", written, _TRAFFIC, Traffic)
        faults = self._list("fault", written, _FAULT, Fault, needs=("kind", "at_seconds"))
        scenario = Scenario(name=whole.pop("name", name), **whole)
        given: dict[str, Any] = {"faults": tuple(faults), "settings": self._settings(written)}
        if fleet:
            given["fleet"] = tuple(fleet)
        if traffic:
            given["traffic"] = tuple(traffic)
        scenario = Scenario(**{**vars(scenario), **given})
        self._check(scenario)
        return scenario

    def _list(
        self,
        key: str,
        written: Mapping[str, Any],
        readers: Mapping[str, Read],
        make: Callable[..., T],
        needs: Sequence[str] = (),
    ) -> list[T]:
        tables = written.get(key, [])
        if not isinstance(tables, list):
            raise self._problem(f"[{key}]", f"write each one as [[{key}]], with two brackets")
        found = []
        for number, table in enumerate(tables, 1):
            where = f"[[{key}]] number {number}"
            values = self._table(where, table, readers)
            for need in needs:
                if need not in values:
                    raise self._problem(where, f"`{need}` is missing; add it")
            if key != "fault" and "name" not in values and len(tables) > 1:
                values["name"] = f"{key}-{number}"
            found.append(make(**values))
        return found

    def _table(self, where: str, table: object, readers: Mapping[str, Read]) -> dict[str, Any]:
        if not isinstance(table, Mapping):
            raise self._problem(where, "this must be a table of keys and values")
        found: dict[str, Any] = {}
        for key, value in table.items():
            read = readers.get(key)
            if read is None:
                raise self._unknown(where, key, readers)
            try:
                made = read(value, self._folder)
            except ValueError as error:
                raise self._problem(f"{where} `{key}`", str(error)) from error
            found.update(made if key in _SEVERAL else {_FIELDS.get(key) or str(key): made})
        return found

    def _settings(self, written: Mapping[str, Any]) -> dict[str, Any]:
        table = written.get("settings", {})
        if not isinstance(table, Mapping):
            raise self._problem("[settings]", "this must be a table, as in a settings file")
        return dict(_dotted(table))

    def _check(self, scenario: Scenario) -> None:
        """What holds between the tables."""
        try:
            settings = scenario.full_settings()
        except SettingsError as error:
            problem = error.message.replace("flag ", "")
            raise SettingsError(f"{self._source}: [settings]: {problem}") from error
        if settings.scheduler.service_catalog.url:
            raise self._problem(
                "[settings] `scheduler.service_catalog.url`",
                "a simulation asks no server for a catalog; leave it out",
            )
        if scenario.warmup_seconds >= scenario.duration_seconds:
            raise self._problem(
                "[simulation] `warmup_seconds`", "it must be shorter than `duration_seconds`"
            )
        for key, items in (("fleet", scenario.fleet), ("traffic", scenario.traffic)):
            names = [item.name for item in items]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise self._problem(f"[[{key}]]", f"two are called {twice!r}; rename one")
        groups = [group.name for group in scenario.fleet]
        for number, group in enumerate(scenario.fleet, 1):
            if group.min_nodes > group.max_nodes:
                raise self._problem(
                    f"[[fleet]] number {number} `min_nodes`", "it is over `max_nodes`; lower it"
                )
        for number, traffic in enumerate(scenario.traffic, 1):
            self._check_traffic(number, traffic)
        for number, fault in enumerate(scenario.faults, 1):
            where = f"[[fault]] number {number}"
            if fault.group is not None and fault.group not in groups:
                meant = nearest(fault.group, groups)
                known = f"did you mean {meant!r}?" if meant else f"there are: {', '.join(groups)}"
                raise self._problem(
                    f"{where} `group`", f"no fleet is called {fault.group!r}; {known}"
                )
            if fault.kind is FaultKind.GROUP and fault.group is None:
                raise self._problem(where, "`group` is missing; name the fleet that fails")
            if fault.kind in (FaultKind.INSTANCE, FaultKind.REDIS) and scenario.instances < 2:
                raise self._problem(
                    where,
                    f"a fault of kind {fault.kind.value!r} needs several instances; set"
                    " `instances` of [simulation] to 2 or more",
                )

    def _check_traffic(self, number: int, traffic: Traffic) -> None:
        where = f"[[traffic]] number {number}"
        if traffic.kind is TrafficKind.SESSIONS:
            if not traffic.sessions and not traffic.starts_per_hour:
                raise self._problem(
                    where, "it has no sessions; set `sessions` or `starts_per_hour`"
                )
            if traffic.jobs_per_second:
                raise self._problem(
                    f"{where} `jobs_per_second`", "this is for `kind` jobs or batch; leave it out"
                )
            return
        if not traffic.jobs_per_second:
            raise self._problem(where, "it has no jobs; set `jobs_per_second`")
        if traffic.sessions or traffic.starts_per_hour:
            raise self._problem(where, "`sessions` and `starts_per_hour` are for `kind` sessions")
        if len(traffic.tgt_langs) > 1:
            raise self._problem(f"{where} `pair`", "a job has one target; make a table for each")

    def _unknown(self, where: str, key: str, known: Mapping[str, object]) -> SettingsError:
        meant = nearest(key, known)
        hint = f"did you mean `{meant}`?" if meant else f"known are: {', '.join(known)}"
        return self._problem(where, f"there is no `{key}` here; {hint}")

    def _problem(self, where: str, problem: str) -> SettingsError:
        return SettingsError(f"{self._source}: {where + ': ' if where else ''}{problem}.")


# --- values ------------------------------------------------------------------------------------


def _distribution(value: object, folder: Path) -> Distribution:
    measured = read_measured(value, folder)
    return measured if measured is not None else read_distribution(value)


def _number(low: float, high: float = math.inf, *, above: bool = False) -> Read:
    def read(value: object, _: Path) -> float:
        what = f"a number {'above' if above else 'of at least'} {low:g}"
        if high != math.inf:
            what += f" and at most {high:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"it must be {what}, not {value!r}")
        if not math.isfinite(value) or not low <= value <= high or (above and value == low):
            raise ValueError(f"it must be {what}, not {value!r}")
        return float(value)

    return read


def _whole(low: int, high: int) -> Read:
    def read(value: object, _: Path) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"it must be a whole number from {low} to {high}, not {value!r}")
        return value

    return read


def _flag(value: object, _: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"it must be true or false, not {value!r}")
    return value


def _name(value: object, _: Path) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > 50:
        raise ValueError(
            "it must be a name of at most 50 letters, digits, dots, dashes and underscores,"
            f" not {value!r}"
        )
    return value


def _choice(kinds: type[K]) -> Read:
    def read(value: object, _: Path) -> K:
        known = [kind.value for kind in kinds]
        if value not in known:
            meant = nearest(value, known) if isinstance(value, str) else None
            hint = f"did you mean {meant!r}?" if meant else f"it must be one of {', '.join(known)}"
            raise ValueError(f"{value!r} is not known; {hint}")
        return kinds(value)

    return read


def _languages(value: object, _: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise ValueError('it must be a list of languages, such as ["en", "es"]')
    for tag in value:
        if not _LANGUAGE.fullmatch(tag):
            raise ValueError(f"{tag!r} is not a language tag; write one such as en or pt-BR")
    return tuple(value)


def _pair(value: object, folder: Path) -> dict[str, Any]:
    source, colon, targets = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon:
        raise ValueError(f'it must be a pair such as "en:es", or "en:es,fr" for two, not {value!r}')
    tags = _languages([source.strip(), *(tag.strip() for tag in targets.split(","))], folder)
    return {"src_lang": tags[0], "tgt_langs": tags[1:]}


def _second_of_day(value: object, _: Path) -> float:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f'it must be a time of day such as "09:30", not {value!r}')
    return int(found[1]) * 3600.0 + int(found[2]) * 60.0


def _curve(value: object, folder: Path) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError('it must be times of day and factors, such as { "09:00" = 1.0 }')
    factor = _number(0.0, 1_000.0)
    points = []
    for time, strength in value.items():
        points.append((_second_of_day(time, folder), factor(strength, folder)))
    if not any(strength for _, strength in points):
        raise ValueError("every factor is 0, so there would be no traffic; raise one")
    return tuple(sorted(points))


def _dotted(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The values of nested tables, by dotted key, as the settings name them."""
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in _TABLE_VALUES:
            found += _dotted(value, f"{name}.")
        else:
            found.append((name, value))
    return found


_TABLE_VALUES = frozenset(
    {"scheduler.pools.tenant_cells", "scheduler.node_health.resource_threshold_percent"}
)
"""Settings whose value is a table of its own."""

_SIMULATION: Mapping[str, Read] = {
    "name": _name,
    "duration_seconds": _number(1, 31 * 86_400),
    "warmup_seconds": _number(0),
    "start_time": _second_of_day,
    "instances": _whole(1, _MOST_INSTANCES),
    "link_ms": _distribution,
    "redis_ms": _number(0, 10_000),
}
_FLEET: Mapping[str, Read] = {
    "name": _name,
    "nodes": _whole(0, 100_000),
    "slots": _whole(1, 10_000),
    "languages": _languages,
    "asr": _languages,
    "semantic": _languages,
    "nmt": _languages,
    "tts": _languages,
    "service_ms": _distribution,
    "audio_ms_per_second": _number(0),
    "failure_share": _number(0, 1),
    "fails_every_seconds": _number(0),
    "down_seconds": _distribution,
    "loses_work": _flag,
    "reconnect_seconds": _distribution,
    "cost": _number(0),
    "min_nodes": _whole(0, 100_000),
    "max_nodes": _whole(0, 100_000),
}
_TRAFFIC: Mapping[str, Read] = {
    "name": _name,
    "kind": _choice(TrafficKind),
    "pair": _pair,
    "input": _choice(InputKind),
    "tenant": _name,
    "curve": _curve,
    "sessions": _whole(0, 1_000_000),
    "starts_per_hour": _number(0),
    "session_seconds": _distribution,
    "utterance_ms": _distribution,
    "pause_ms": _distribution,
    "jobs_per_second": _number(0, 100_000),
    "waits": _flag,
}
_FAULT: Mapping[str, Read] = {
    "kind": _choice(FaultKind),
    "at_seconds": _number(0),
    "for_seconds": _number(0, above=True),
    "group": _name,
    "nodes": _whole(1, 100_000),
    "factor": _number(0, above=True),
}
_TABLES: Mapping[str, object] = {
    "simulation": None,
    "fleet": None,
    "traffic": None,
    "fault": None,
    "settings": None,
}
_FIELDS = {"start_time": "start_second_of_day"}
_SEVERAL = frozenset({"pair"})
"""Keys that stand for several fields."""


# --- writing -----------------------------------------------------------------------------------


def faults_as_toml(faults: Sequence[Fault]) -> str:
    """The faults, to be put into a scenario file."""
    tables = []
    for fault in faults:
        lines = [
            "[[fault]]",
            f'kind = "{fault.kind.value}"',
            f"at_seconds = {fault.at_seconds:g}",
            f"for_seconds = {fault.for_seconds:g}",
        ]
        if fault.group is not None:
            lines.append(f'group = "{fault.group}"')
        if fault.kind in (FaultKind.NODE, FaultKind.LINK, FaultKind.SLOW, FaultKind.LYING):
            lines.append(f"nodes = {fault.nodes}")
        if fault.kind is FaultKind.SLOW:
            lines.append(f"factor = {fault.factor:g}")
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)
