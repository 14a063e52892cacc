"""Which experiment a file means: an unfinished one, or a new one."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console

from dragoman.api import ExperimentView, VersionView
from dragoman.cli.experiment.experiment_file import ExperimentFile
from dragoman.cli.lab.client import LabClient
from dragoman.cli.lab.import_progress import told_on
from dragoman.errors import NotFound, SettingsError
from dragoman.lab.library import DatasetFile
from dragoman.lab.states import RunStatus

_FINISHED = (RunStatus.SUCCESS, RunStatus.FAILED)


class Meant(msgspec.Struct, frozen=True):
    """The experiment and the dataset version that a file means."""

    version_id: str
    items: int
    """How many items the version has."""
    name: str
    """What a new experiment would be called."""
    unfinished: ExperimentView | None
    """The same experiment, begun before and not finished."""


async def find_meant(lab: LabClient, file: ExperimentFile, *, new: bool) -> Meant:
    """Find the experiment: the same name, file and dataset version mean the same one."""
    version_id, items = await _version(lab, file)
    name = file.described.name
    latest: ExperimentView | None = None
    number = 1
    while (found := await lab.find_experiment(name)) is not None:
        latest, number = found, number + 1
        name = f"{file.described.name} #{number}"
    same = (
        latest is not None
        and latest.dataset_version_id == version_id
        and file.mark in latest.description
    )
    if latest is None or new or not same or latest.status in _FINISHED:
        return Meant(version_id, items, name, None)
    return Meant(version_id, items, name, latest)


def dataset_file_of(file: ExperimentFile) -> DatasetFile | None:
    """The file of the dataset; None when the experiment file names a dataset of the lab."""
    cases, part = file.dataset_file, file.described.dataset
    if cases is None:
        return None
    return DatasetFile(
        cases,
        format=part.format,
        schema=None if part.schema is None else file.path.parent / part.schema,
        audio=tuple(part.audio),
        copy=part.copy,
    )


async def imported_version(lab: LabClient, file: ExperimentFile) -> str | None:
    """The dataset version of an append experiment, imported if need be; None without a dataset."""
    return None if file.without_dataset else (await _version(lab, file))[0]


async def _version(lab: LabClient, file: ExperimentFile) -> tuple[str, int]:
    """The dataset version that the file means, imported if the lab does not have it."""
    wanted = dataset_file_of(file)
    if wanted is None:
        named = await named_version(lab, file)
        return named.version_id, named.items
    # Sent each time: the lab compares the content and stores it once.
    with told_on(Console(stderr=True)) as tell:
        found = await lab.import_dataset(wanted, Path(wanted.path).name, tell)
        return found.version_id, found.items


async def named_version(lab: LabClient, file: ExperimentFile) -> VersionView:
    """The version of a dataset of the lab that the file names."""
    wanted = file.described.dataset
    try:
        found = await lab.dataset(wanted.name or "")
    except NotFound as error:
        raise SettingsError(f"{file.path}: {error.message}") from None
    if wanted.version is None:
        return found.latest
    for version in await lab.versions(found.dataset_id):
        if version.version == wanted.version:
            return version
    raise SettingsError(
        f"{file.path}: the dataset {wanted.name!r} has no version {wanted.version}; its latest is "
        f"{found.latest.version}."
    )
