"""The sample experiments, so that a demo's lab has something to show and to compare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx

from dragoman.cli.experiment.experiment_file import ExperimentFile, read_experiment_file
from dragoman.cli.experiment.identity import dataset_file_of
from dragoman.cli.lab.client import LabClient
from dragoman.errors import DragomanError, ExtraMissing, NameTaken
from dragoman.lab.samples import EXPERIMENTS, samples_folder
from dragoman.observability import get_logger

_FILES = EXPERIMENTS[:2]
"""Two systems on one dataset, to be compared."""

_NEEDS_NO_LIBRARY = "exact"

_PATIENCE_SECONDS = 30.0

_log = get_logger(__name__)


def sample_files() -> list[ExperimentFile]:
    """The experiments that a demo runs; their names are those of the lab."""
    return [read_experiment_file(samples_folder() / name) for name in _FILES]


@asynccontextmanager
async def running_samples(url: str) -> AsyncIterator[None]:
    """Have the server's lab run the samples; if that fails, the demo goes on without them."""
    submitting = asyncio.create_task(_submit(url))
    try:
        yield
    finally:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)


async def _submit(url: str) -> None:
    try:
        files = await asyncio.to_thread(sample_files)
        async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_SECONDS) as http:
            lab = LabClient(http)
            for file in files:
                await _run(lab, file)
    except (DragomanError, OSError) as error:
        _log.warning("samples_not_run", error=error)


async def _run(lab: LabClient, file: ExperimentFile) -> None:
    dataset = dataset_file_of(file)
    assert dataset is not None, "a sample brings its data"
    imported = await lab.import_dataset(dataset, str(file.described.dataset.file))
    order = file.order(file.described.name, imported.version_id)
    try:
        await _submit_order(lab, order)
    except ExtraMissing:
        # A bare installation scores what needs no library.
        kept = [one for one in order["evaluators"] if one["kind"] == _NEEDS_NO_LIBRARY]
        await _submit_order(lab, {**order, "evaluators": kept})


async def _submit_order(lab: LabClient, order: dict[str, Any]) -> None:
    with suppress(NameTaken):  # an earlier demo on the same folder ran it
        await lab.submit(order)
