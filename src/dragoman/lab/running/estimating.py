"""``lab.estimate``: what a run will take, before it is started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from dragoman.auth import DEFAULT_TENANT
from dragoman.clock import SystemClock
from dragoman.lab.audio import AudioFolder, audio_folder_of
from dragoman.lab.datasets import Format
from dragoman.lab.estimate_report import estimate_lines
from dragoman.lab.estimates import Estimate, Sample
from dragoman.lab.library import DatasetFile, OpenedTable, opened_table, sample_of
from dragoman.lab.model import ExperimentSpec, ResultRow, TargetSpec
from dragoman.lab.plane import Lab
from dragoman.lab.plugins import Context, fleet_of_folder
from dragoman.lab.repository import datasets
from dragoman.lab.roles import EMBEDDED
from dragoman.lab.running.describing import Evaluator, Function, evaluators_of, target_of
from dragoman.lab.running.embedded import Dataset, no_dataset, rows_as_file, unreadable
from dragoman.observability import Metrics
from dragoman.printable import printable
from dragoman.randomness import Randomness
from dragoman.settings import Settings, load_settings
from dragoman.store import SchemaStatus, check, open_store, upgrade

_SCRATCH_DATABASE = "sqlite:///{data_dir}/dragoman.db"


class EstimateResult:
    """What `lab.estimate` returns: the figures, and the items that were tried for them."""

    def __init__(self, estimate: Estimate, rows: Sequence[ResultRow]) -> None:
        self.estimate = estimate
        self.rows = list(rows)

    def __str__(self) -> str:
        return printable("\n".join(estimate_lines(self.estimate)))

    def __repr__(self) -> str:
        return f"<EstimateResult of {self.estimate.items} items>"


async def aestimate(
    *,
    dataset: Dataset,
    target: Function | str | TargetSpec,
    evaluators: Evaluator | Function | Sequence[Evaluator | Function] = (),
    mapping: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    evaluator_concurrency: int | None = None,
    item_timeout_seconds: float | None = None,
    repetitions: int = 1,
    data_dir: Path | str | None = None,
) -> EstimateResult:
    """Try three items of the dataset, store nothing, and estimate what `lab.run` would take.

    The arguments are those of `lab.run`. `data_dir` is only read, and only for a dataset that is
    given by its name.
    """
    target_spec, functions = target_of(target)
    judges = evaluators_of(evaluators)
    own = {one.spec.name: one.function for one in judges if one.function is not None}
    spec = ExperimentSpec(
        name="estimate",
        dataset_version_id=None,
        target=target_spec,
        evaluators=tuple(one.spec for one in judges),
        mapping=dict(mapping or {}),
        concurrency=concurrency,
        evaluator_concurrency=evaluator_concurrency,
        item_timeout_seconds=item_timeout_seconds,
        repetitions=repetitions,
    )
    called = {**functions, **own}
    if await asyncio.to_thread(_is_name, dataset):
        flags = {"server": {"data_dir": None if data_dir is None else Path(data_dir)}}
        settings = load_settings(None, flags).settings
        return await _estimated(spec, settings, called, name=str(dataset))
    with TemporaryDirectory(prefix="dragoman-estimate-") as scratch:
        folder = {"server": {"data_dir": Path(scratch)}}
        settings = load_settings(
            None, {**folder, "store": {"database_url": _SCRATCH_DATABASE}}
        ).settings
        sample = await asyncio.to_thread(
            _sample, dataset, settings.lab.max_items, audio_folder_of(Path(scratch))
        )
        return await _estimated(spec, settings, called, sample=sample)


def estimate(
    *,
    dataset: Dataset,
    target: Function | str | TargetSpec,
    evaluators: Evaluator | Function | Sequence[Evaluator | Function] = (),
    mapping: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    evaluator_concurrency: int | None = None,
    item_timeout_seconds: float | None = None,
    repetitions: int = 1,
    data_dir: Path | str | None = None,
) -> EstimateResult:
    """`aestimate` for programs that have no event loop, and for notebooks."""
    asked = aestimate(
        dataset=dataset,
        target=target,
        evaluators=evaluators,
        mapping=mapping,
        concurrency=concurrency,
        evaluator_concurrency=evaluator_concurrency,
        item_timeout_seconds=item_timeout_seconds,
        repetitions=repetitions,
        data_dir=data_dir,
    )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(asked)
    with ThreadPoolExecutor(1) as thread:  # beside the event loop of a notebook
        return thread.submit(asyncio.run, asked).result()


async def _estimated(
    spec: ExperimentSpec,
    settings: Settings,
    functions: Mapping[str, Function],
    *,
    sample: Sample | None = None,
    name: str | None = None,
) -> EstimateResult:
    database_url = settings.store.database_url
    if name is not None and check(database_url).state is SchemaStatus.EMPTY:
        raise no_dataset(name)  # there is no lab, and none is made
    await asyncio.to_thread(upgrade, database_url)
    context = Context(
        functions=functions,
        modules=str(Path.cwd()),
        audio_folder=audio_folder_of(settings.server.data_dir),
        own_fleet=fleet_of_folder(settings.server.data_dir, settings.server.tls_cert),
        frees_audio=sample is None,
    )
    async with (
        await open_store(database_url) as store,
        Lab(
            store,
            settings.lab,
            SystemClock(),
            Randomness(),
            Metrics(),
            context=context,
            role=EMBEDDED,
        ) as lab,
    ):
        if name is not None:
            known = await store.read(lambda c: datasets.find_dataset(c, DEFAULT_TENANT, name=name))
            if known is None:
                raise no_dataset(name)
            version_id = known.latest.version_id
            spec = msgspec.structs.replace(spec, dataset_version_id=version_id)
        found = await lab.estimates.estimate(DEFAULT_TENANT, spec, sample)
        return EstimateResult(found.estimate, found.rows)


def _is_name(dataset: Dataset) -> bool:
    return isinstance(dataset, str | Path) and not Path(dataset).is_file()


def _sample(dataset: Dataset, max_items: int, folder: AudioFolder) -> Sample:
    """A sample of a file, or of rows, which is not imported."""
    if isinstance(dataset, str | Path):
        dataset = DatasetFile(dataset)
    with ExitStack() as stack:
        if isinstance(dataset, DatasetFile):
            try:
                table = stack.enter_context(opened_table(dataset))
            except OSError as error:
                raise unreadable(dataset, error) from None
        else:
            file = stack.enter_context(rows_as_file(dataset))
            file.seek(0)
            table = OpenedTable(file, Format.JSONL, None, None)
        return sample_of(table, max_items, folder)
