"""An experiment run to its end, in this program, as its user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, ParamSpec, cast

import msgspec

from dragoman.auth import DEFAULT_TENANT
from dragoman.clock import Clock, SystemClock
from dragoman.errors import (
    DatasetInvalid,
    ExperimentNotRunning,
    InvalidMessage,
    NameTaken,
    NotFound,
)
from dragoman.lab.datasets import Format, format_of
from dragoman.lab.feed import RunEnded
from dragoman.lab.library import Library
from dragoman.lab.model import (
    DEFAULT_RETRIES,
    ExperimentId,
    ExperimentSpec,
    JsonValue,
    RunId,
    TargetSpec,
    VersionId,
)
from dragoman.lab.plane import Lab
from dragoman.lab.results import Results
from dragoman.lab.running.describing import Evaluator, Function, evaluator_of, target_of
from dragoman.lab.running.result import RunResult, Summary
from dragoman.lab.states import ENDED
from dragoman.lab.targets import Context, checked_json
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import LabSettings, load_settings
from dragoman.store import Store, open_store, upgrade

Dataset = str | Path | Iterable[Mapping[str, JsonValue]]
"""A file, the name of a dataset that was imported before, or the rows themselves."""

Asked = ParamSpec("Asked")

_ROWS_IN_MEMORY_BYTES = 16 << 20

_LOOK_SECONDS = 1.0
"""How often the end is looked for besides waiting to be told of it."""


async def arun(
    *,
    dataset: Dataset,
    target: Function | str | TargetSpec,
    evaluators: Sequence[Evaluator | Function] = (),
    name: str | None = None,
    mapping: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    evaluator_concurrency: int | None = None,
    retries: int = DEFAULT_RETRIES,
    item_timeout_seconds: float | None = None,
    data_dir: Path | str | None = None,
) -> RunResult:
    """Run a dataset through a target and judge what comes out.

    `target` is a function (sync or async; its arguments are columns, by name), "module:function",
    or one of `lab.http(...)` and `lab.recorded(...)`. Everything is kept in `data_dir`, where
    `dragoman experiment` and a server find it too.
    """
    flags = {"server": {"data_dir": None if data_dir is None else Path(data_dir)}}
    settings = load_settings(None, flags).settings
    database_url = settings.store.database_url
    await asyncio.to_thread(upgrade, database_url)
    target_spec, functions = target_of(target)
    judges = [evaluator_of(evaluator) for evaluator in evaluators]
    own = {one.spec.name: one.function for one in judges if one.function is not None}
    spec = ExperimentSpec(
        name=name or _named_after(target),
        dataset_version_id=None,
        target=target_spec,
        evaluators=tuple(one.spec for one in judges),
        mapping=dict(mapping or {}),
        concurrency=concurrency,
        evaluator_concurrency=evaluator_concurrency,
        retries=retries,
        item_timeout_seconds=item_timeout_seconds,
    )
    async with await open_store(database_url) as store:
        bench = _Bench(store, settings.lab, Context(functions={**functions, **own}))
        experiment_id, run_id, summary = await bench.carry_out(spec, dataset)
    return RunResult(database_url, DEFAULT_TENANT, experiment_id, run_id, summary)


class _Bench:
    """A lab of the program's own, for one experiment."""

    def __init__(self, store: Store, settings: LabSettings, context: Context) -> None:
        clock: Clock = SystemClock()
        randomness = Randomness()
        self._store = store
        self._library = Library(store, settings, clock, randomness.stream("datasets"))
        self._clock = clock
        self._lab = Lab(
            store, settings, clock, randomness, Metrics(), context=context, embedded=True
        )

    async def carry_out(
        self, spec: ExperimentSpec, dataset: Dataset
    ) -> tuple[ExperimentId, RunId, Summary]:
        async with self._lab as lab:
            spec = msgspec.structs.replace(
                spec,
                name=await self._free_name(spec.name),
                dataset_version_id=await self._version(dataset),
            )
            made, started = await lab.experiments.submit(DEFAULT_TENANT, spec)
            try:
                summary = await self._until_ended(made.experiment_id)
            except asyncio.CancelledError:
                # Interrupted: nothing more is begun, and what is done stays.
                await asyncio.shield(self._stop(made.experiment_id))
                raise
            return made.experiment_id, started.run_id, summary

    async def _until_ended(self, experiment_id: ExperimentId) -> Summary:
        with self._lab.feed.watch(experiment_id) as watcher:
            while True:
                overview = await self._lab.experiments.show(DEFAULT_TENANT, experiment_id)
                if overview.experiment.status in ENDED:
                    break
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        async for change in watcher:
                            if isinstance(change, RunEnded):
                                break
                except TimeoutError:
                    continue
        experiment = overview.experiment
        started_ms, ended_ms = experiment.started_at_ms, experiment.ended_at_ms
        return Summary(
            name=experiment.spec.name,
            status=experiment.status,
            reason=experiment.reason,
            stats=overview.stats,
            duration_seconds=None
            if started_ms is None or ended_ms is None
            else (ended_ms - started_ms) / 1000,
            aggregates=await Results(self._store).aggregates(DEFAULT_TENANT, experiment_id),
        )

    async def _stop(self, experiment_id: ExperimentId) -> None:
        try:
            await self._lab.experiments.kill(DEFAULT_TENANT, experiment_id)
        except ExperimentNotRunning:
            return
        await self._until_ended(experiment_id)

    async def _free_name(self, name: str) -> str:
        free, number = name, 1
        while await self._lab.experiments.find(DEFAULT_TENANT, free) is not None:
            number += 1
            free = f"{name} #{number}"
        return free

    async def _version(self, dataset: Dataset) -> VersionId:
        """The version that the dataset means; a file or rows are imported."""
        if isinstance(dataset, str | Path):
            file = await asyncio.to_thread(_opened, Path(dataset))
            if file is not None:
                with file:
                    name = Path(dataset).name
                    return await self._import(name, file, format_of(name))
            known = await self._library.find_named(DEFAULT_TENANT, str(dataset))
            if known is None:
                raise InvalidMessage(
                    f"There is no file and no dataset {str(dataset)!r}; give a path to a .jsonl or "
                    ".csv file, the name of a dataset, or the rows themselves."
                )
            return known.latest.version_id
        with await asyncio.to_thread(_as_file, dataset) as file:
            return await self._import("rows", file, Format.JSONL)

    async def _import(self, name: str, file: BinaryIO, file_format: Format) -> VersionId:
        """The file as a version of the dataset of its name; the same rows are the same version."""
        while True:
            known = await self._library.find_named(DEFAULT_TENANT, name)
            file.seek(0)
            try:
                if known is None:
                    added = await self._library.add(DEFAULT_TENANT, name, file, file_format)
                else:
                    added = await self._library.add_version(
                        DEFAULT_TENANT, known.dataset_id, file, file_format
                    )
            except (NameTaken, NotFound):
                continue  # another run made the dataset, or deleted it, at the same moment
            return added.version.version_id


def _as_file(rows: Iterable[Mapping[str, JsonValue]]) -> BinaryIO:
    """The rows as a file, which is kept in memory only while it is small."""
    file = SpooledTemporaryFile(max_size=_ROWS_IN_MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        for number, row in enumerate(rows, 1):
            file.write(_line(number, row))
    except BaseException:
        file.close()
        raise
    return cast(BinaryIO, file)


def _line(number: int, row: Mapping[str, JsonValue]) -> bytes:
    """A row as a line of a file."""
    try:
        line = msgspec.json.encode(row)
        if b"null" in line:
            # The encoder writes null for NaN and infinities, which are no missing values.
            checked_json(msgspec.to_builtins(row), "row")
    except (TypeError, ValueError, RecursionError) as error:
        raise DatasetInvalid(
            f"Nothing was imported. Row {number} cannot be stored: {error}"
        ) from None
    return line + b"\n"


def _opened(path: Path) -> BinaryIO | None:
    return path.open("rb") if path.is_file() else None


def _named_after(target: Function | str | TargetSpec) -> str:
    if isinstance(target, TargetSpec):
        return target.kind
    return target if isinstance(target, str) else str(getattr(target, "__name__", "function"))


def _blocking(
    function: Callable[Asked, Coroutine[Any, Any, RunResult]],
) -> Callable[Asked, RunResult]:
    @wraps(function)
    def blocking(*args: Asked.args, **kwargs: Asked.kwargs) -> RunResult:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(function(*args, **kwargs))
        raise RuntimeError(
            "lab.run cannot be used inside an event loop; use `await lab.arun(...)`."
        )

    return blocking


run = _blocking(arun)
"""`arun` for programs that have no event loop."""
