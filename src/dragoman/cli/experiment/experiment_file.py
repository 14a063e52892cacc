"""An experiment as a TOML file describes it."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from dragoman.cli.experiment.gate import Gate, read_gate
from dragoman.errors import SettingsError


class DatasetPart(msgspec.Struct, forbid_unknown_fields=True):
    """Which cases: a file, or a dataset that was imported before."""

    file: str | None = None
    name: str | None = None
    version: int | None = None
    format: str | None = None


class RunPart(msgspec.Struct, forbid_unknown_fields=True):
    """How it is run; what is left out, the settings decide."""

    concurrency: int | None = None
    evaluator_concurrency: int | None = None
    retries: int | None = None
    item_timeout_seconds: float | None = None
    time_limit_seconds: float | None = None


class Description(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that the file may say."""

    name: str
    dataset: DatasetPart
    target: dict[str, Any]
    evaluators: list[dict[str, Any]] = []
    description: str = ""
    mapping: dict[str, str] = {}
    budget: dict[str, Any] = {}
    run: RunPart = msgspec.field(default_factory=RunPart)
    gate: dict[str, str] = {}


class ExperimentFile(msgspec.Struct, frozen=True):
    """A file that was read: what it describes, and the mark by which it is known again."""

    path: Path
    described: Description
    gate: Gate
    mark: str
    """Changes with every byte of the file."""

    def order(self, name: str, version_id: str) -> dict[str, Any]:
        """What the lab is asked for."""
        described = self.described
        wanted = {
            "name": name,
            "dataset_version_id": version_id,
            "target": described.target,
            "evaluators": described.evaluators,
            "description": f"{described.description}\n{self.mark}".strip(),
            "mapping": described.mapping,
            "budget": described.budget or None,
            **msgspec.to_builtins(described.run),
        }
        return {key: value for key, value in wanted.items() if value is not None}

    @property
    def dataset_file(self) -> Path | None:
        """The file with the cases, found beside this one."""
        file = self.described.dataset.file
        return None if file is None else self.path.parent / file


def read_experiment_file(path: Path) -> ExperimentFile:
    """Read the file; what cannot be used is named."""
    try:
        content = path.read_bytes()
        described = msgspec.convert(tomllib.loads(content.decode()), Description)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML file ({error}).") from None
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {error}.") from None
    dataset = described.dataset
    if (dataset.file is None) == (dataset.name is None):
        raise SettingsError(f"{path}: [dataset] names either a `file` or a `name`.")
    if dataset.file is not None and dataset.version is not None:
        raise SettingsError(f"{path}: `version` goes with the `name` of a dataset, not a file.")
    found = ExperimentFile(
        path=path,
        described=described,
        gate=read_gate(described.gate, _score_names(described), str(path)),
        mark=f"sha256:{hashlib.sha256(content).hexdigest()}",
    )
    if found.dataset_file is not None and not found.dataset_file.is_file():
        raise SettingsError(f"{path}: there is no file {found.dataset_file}; see [dataset].")
    return found


def _score_names(described: Description) -> list[str]:
    """What the evaluators call their scores; one without a name is called as its kind."""
    return [str(one.get("name") or one.get("kind", "")) for one in described.evaluators]
