"""An experiment as a TOML file describes it."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dragoman.api import ExperimentView
from dragoman.cli.experiment.gate import OPTIONS, Gate, read_gate
from dragoman.errors import SettingsError
from dragoman.lab.evaluators import EVALUATORS
from dragoman.lab.model import DEFAULT_RETRIES, Budget, EvaluatorSpec
from dragoman.lab.targets import TARGETS
from dragoman.spelling import nearest


class DatasetPart(msgspec.Struct, forbid_unknown_fields=True):
    """The dataset: a file, or a dataset that is in the lab."""

    file: str | None = None
    name: str | None = None
    version: int | None = None
    format: str | None = None
    schema: str | None = None
    """A JSON Schema for every turn, as a file beside this one."""
    audio: list[str] = []
    """Columns that name audio files."""
    copy: bool = True
    """Whether the lab keeps copies of the audio."""


class RunPart(msgspec.Struct, forbid_unknown_fields=True):
    """How to run it; the settings decide what the file leaves out."""

    concurrency: int | None = None
    evaluator_concurrency: int | None = None
    retries: int | None = None
    item_timeout_seconds: float | None = None
    time_limit_seconds: float | None = None
    repetitions: int | None = None
    cache: bool | None = None
    weight: float | None = None
    cron: str | None = None
    cron_timezone: str | None = None


class Description(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that the file may contain."""

    name: str
    target: dict[str, Any]
    dataset: DatasetPart = msgspec.field(default_factory=DatasetPart)
    evaluators: list[dict[str, Any]] = []
    description: str = ""
    mapping: dict[str, str] = {}
    budget: dict[str, Any] = {}
    run: RunPart = msgspec.field(default_factory=RunPart)
    gate: dict[str, Any] | None = None


class EvaluatorsPart(msgspec.Struct):
    """The evaluators alone, of a file that may contain more."""

    evaluators: list[dict[str, Any]] = []


class ExperimentFile(msgspec.Struct, frozen=True):
    """A file that was read: what it describes, and the mark that identifies the experiment."""

    path: Path
    described: Description
    gate: Gate
    mark: str
    """Changes only when a part of the file changes that decides the results."""

    def order(self, name: str, version_id: str | None) -> dict[str, Any]:
        """The request to the lab."""
        described = self.described
        wanted = {
            "name": name,
            "dataset_version_id": version_id,
            "target": described.target,
            "evaluators": described.evaluators,
            "description": self.description,
            "mapping": described.mapping,
            "budget": described.budget or None,
            **msgspec.to_builtins(described.run),
        }
        return {key: value for key, value in wanted.items() if value is not None}

    @property
    def description(self) -> str:
        """The description to store with the experiment; its last line is the mark."""
        return f"{self.described.description}\n{self.mark}".strip()

    def changes(self, found: ExperimentView) -> dict[str, Any]:
        """The changeable fields in which the file now differs from the experiment."""
        run, budget = self.described.run, self.described.budget
        asked = {
            "description": self.description,
            "concurrency": run.concurrency,
            "retries": DEFAULT_RETRIES if run.retries is None else run.retries,
            "weight": 1.0 if run.weight is None else run.weight,
            "budget": {"tokens": budget.get("tokens"), "cost": budget.get("cost")},
        }
        now = msgspec.to_builtins(found)
        return {key: value for key, value in asked.items() if value != now[key]}

    @property
    def without_dataset(self) -> bool:
        """Whether all items are added while the experiment runs."""
        return self.described.dataset == DatasetPart()

    @property
    def dataset_file(self) -> Path | None:
        """The dataset's file; its path is relative to this file."""
        file = self.described.dataset.file
        return None if file is None else self.path.parent / file


def read_experiment_file(
    path: Path, *, repetitions: int | None = None, cache: bool = False, appends: bool = False
) -> ExperimentFile:
    """Read an experiment file; raises SettingsError that names what cannot be used.

    `repetitions` count instead of those in the file; `cache` is as if the file said so. One that
    `appends` may have cron, and no dataset.
    """
    written = _written(path)
    _check_keys(written, str(path))
    described = _converted(written, Description, path)
    if repetitions is not None:
        described.run.repetitions = repetitions
    described.run.cache = described.run.cache or cache or None
    dataset = described.dataset
    if not appends and described.run.cron is not None:
        raise SettingsError(
            f"{path}: [run] `cron` is for experiments that start by themselves; start this one "
            f"with `dragoman experiment append {path}`."
        )
    if not (appends and dataset == DatasetPart()) and (dataset.file is None) == (
        dataset.name is None
    ):
        raise SettingsError(f"{path}: [dataset] needs either a `file` or a `name`.")
    if dataset.file is not None and dataset.version is not None:
        raise SettingsError(f"{path}: [dataset] `version` goes with `name`, not with `file`.")
    if dataset.file is None:
        _refuse_of_files(dataset, path)
    found = ExperimentFile(
        path=path,
        described=described,
        gate=read_gate(described.gate, list(kinds := _score_kinds(described)), str(path), kinds),
        mark=_mark(described),
    )
    if found.dataset_file is not None and not found.dataset_file.is_file():
        raise SettingsError(f"{path}: the file {found.dataset_file} of [dataset] does not exist.")
    return found


def read_evaluators(path: Path) -> list[dict[str, Any]]:
    """The [[evaluators]] of a TOML file, which may be an experiment file."""
    written = _written(path)
    given = {"evaluators": written.get("evaluators", [])}
    _check_keys(given, str(path))
    evaluators = _converted(given, EvaluatorsPart, path).evaluators
    if not evaluators:
        raise SettingsError(f"{path} has no [[evaluators]]; write at least one.")
    return evaluators


Part = TypeVar("Part")


def _written(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not a TOML file ({error}).") from None


def _converted(written: Mapping[str, Any], part: type[Part], path: Path) -> Part:
    try:
        return msgspec.convert(written, part)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {error}.") from None


def _refuse_of_files(dataset: DatasetPart, path: Path) -> None:
    """Refuse what is said of a file where the dataset is already in the lab."""
    plain = DatasetPart()
    for key in ("format", "schema", "audio", "copy"):
        if getattr(dataset, key) != getattr(plain, key):
            raise SettingsError(f"{path}: [dataset] `{key}` goes with `file`, not with `name`.")


def _check_keys(written: Mapping[str, Any], where: str) -> None:
    """Refuse a key that means nothing where it stands, and say where it belongs."""
    for table, given in _tables(written):
        known = _known_keys(table, given)
        if known is None:
            continue
        for key in given:
            if key not in known:
                raise SettingsError(f"{where}: {_unknown(key, table, known)}")


def _tables(written: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table of a file by its name; the file itself is the one without."""
    yield "", dict(written)
    for name in ("dataset", "target", "run", "budget"):
        if isinstance(written.get(name), dict):
            yield name, written[name]
    evaluators = written.get("evaluators")
    for one in evaluators if isinstance(evaluators, list) else ():
        if isinstance(one, dict):
            yield "evaluators", one


_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "": Description,
    "dataset": DatasetPart,
    "run": RunPart,
    "budget": Budget,
}


def _known_keys(table: str, given: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The keys of a table; None where a kind that only the server knows decides them."""
    if table in _TABLES:
        return _TABLES[table].__struct_fields__
    kinds, own = (TARGETS, ("kind",)) if table == "target" else (EVALUATORS, _EVALUATOR_KEYS)
    kind = str(given.get("kind", ""))
    if kind not in tuple(kinds):
        return None
    return (*own, *kinds.find(kind).settings.__struct_fields__)


_EVALUATOR_KEYS = tuple(name for name in EvaluatorSpec.__struct_fields__ if name != "settings")


def _unknown(key: str, table: str, known: Sequence[str]) -> str:
    places = {name: _TABLES[name].__struct_fields__ for name in _TABLES}
    places |= {"gate": OPTIONS, "evaluators": _EVALUATOR_KEYS}
    for place, keys in places.items():
        if place != table and key in keys:
            return f"{_shown(table)} has no key {key!r}; it belongs to {_shown(place)}."
    if (meant := nearest(key, known)) is not None:
        return f"{_shown(table)} has no key {key!r}; did you mean {meant!r}?"
    for place, keys in places.items():
        if place != table and (meant := nearest(key, keys)) is not None:
            return (
                f"{_shown(table)} has no key {key!r}; did you mean {meant!r}, which belongs to "
                f"{_shown(place)}?"
            )
    return f"{_shown(table)} has no key {key!r}; it takes {', '.join(known)}."


def _shown(table: str) -> str:
    if not table:
        return "the top of the file"
    return "[[evaluators]]" if table == "evaluators" else f"[{table}]"


def _mark(described: Description) -> str:
    """The hash of everything that decides the results.

    It leaves out comments and gates, and what may change while an experiment runs: the
    concurrency, the retries, the weight, the budget and the description. The dataset version is
    compared separately.
    """
    run = described.run
    deciding = {
        "target": described.target,
        "evaluators": described.evaluators,
        "mapping": described.mapping,
        "evaluator_concurrency": run.evaluator_concurrency,
        "item_timeout_seconds": run.item_timeout_seconds,
        "time_limit_seconds": run.time_limit_seconds,
        **({"cache": True} if run.cache else {}),
    }
    if run.repetitions not in (None, 1):
        deciding["repetitions"] = run.repetitions
    # TOML has dates, which become text, and infinities, which JSON lacks.
    content = json.dumps(deciding, sort_keys=True, default=str)
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def _score_kinds(described: Description) -> dict[str, str]:
    """The kinds of the evaluators by the names of their scores; without a name it is the kind."""
    return {
        str(one.get("name") or one.get("kind", "")): str(one.get("kind", ""))
        for one in described.evaluators
    }
