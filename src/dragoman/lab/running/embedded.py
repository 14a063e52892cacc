"""An experiment run to its end, in this program, as its user."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, ParamSpec, cast

import msgspec

from dragoman.auth import DEFAULT_TENANT
from dragoman.clock import Clock, SystemClock
from dragoman.errors import (
    DatasetInvalid,
    ExperimentNotRunning,
    ExperimentRunning,
    InvalidMessage,
    NameTaken,
    NotFound,
)
from dragoman.lab.audio import audio_folder_of
from dragoman.lab.datasets import Format
from dragoman.lab.experiments import StartAsk
from dragoman.lab.feed import RunEnded
from dragoman.lab.library import DatasetFile, Library, OpenedTable, opened_table
from dragoman.lab.model import (
    DEFAULT_RETRIES,
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    JsonValue,
    RunId,
    TargetSpec,
    VersionId,
)
from dragoman.lab.owners import is_gone
from dragoman.lab.plane import Lab
from dragoman.lab.plugins import Context, fleet_of_folder
from dragoman.lab.repository import leases, runs
from dragoman.lab.results import Results
from dragoman.lab.roles import EMBEDDED
from dragoman.lab.running.describing import Evaluator, Function, evaluators_of, target_of
from dragoman.lab.running.progress import Quiet, notebook, shown_here
from dragoman.lab.running.result import RunResult, Summary
from dragoman.lab.running.watching import Display, Interrupts, Reached, interrupts, watch
from dragoman.lab.states import ACTIVE, RunMode, RunStatus
from dragoman.lab.targets import checked_json
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import LabSettings, load_settings
from dragoman.store import Store, StoreConnection, open_store, upgrade

Dataset = str | Path | DatasetFile | Iterable[Mapping[str, JsonValue]]
"""A file, the name of a dataset that was imported before, or the rows themselves."""

Asked = ParamSpec("Asked")

_ROWS_IN_MEMORY_BYTES = 16 << 20

_LOOK_SECONDS = 0.5
"""How often the program checks the run's progress, besides hearing of its end."""

_FINISHED = (RunStatus.SUCCESS, RunStatus.FAILED)
_INTERRUPTED_EXIT_CODE = 130


class Interrupted(KeyboardInterrupt, SystemExit):
    """Raised when Ctrl-C stopped `lab.run`; the message says what is kept and how to resume.

    A program that does not catch it ends with exit code 130 and without a traceback.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = _INTERRUPTED_EXIT_CODE


async def arun(
    *,
    dataset: Dataset,
    target: Function | str | TargetSpec,
    evaluators: Evaluator | Function | Sequence[Evaluator | Function] = (),
    name: str | None = None,
    mapping: Mapping[str, str] | None = None,
    concurrency: int | None = None,
    evaluator_concurrency: int | None = None,
    retries: int = DEFAULT_RETRIES,
    item_timeout_seconds: float | None = None,
    repetitions: int = 1,
    cache: bool = False,
    data_dir: Path | str | None = None,
    new: bool = False,
    progress: bool | None = None,
) -> RunResult:
    """Run a dataset through a target and judge what comes out.

    `target` is a function (sync or async; its arguments are columns, by name), "module:function",
    one of `lab.fleet(...)`, `lab.http(...)`, `lab.openai(...)` and `lab.recorded(...)`, or "fleet",
    which is `lab.fleet()`. Everything is kept in `data_dir`, where
    `dragoman experiment` and a server find it too. Each item is tried `repetitions` times.

    The same name, target, evaluators and rows are the same experiment: one that was stopped goes
    on where it was, one that is finished or running elsewhere stays, and a new one (`NAME #2`) is
    made. `new` always makes one. With `cache`, a question that the target was asked before is
    answered as it was then, and the row says `cached`. Progress is shown on a terminal and in a
    notebook; `progress` says otherwise. A task that is cancelled cancels its calls; Ctrl-C in
    `lab.run` lets those in flight finish, and cancels them when it is pressed again.
    """
    return await _run(
        Interrupts(),
        dataset=dataset,
        target=target,
        evaluators=evaluators,
        name=name,
        mapping=mapping,
        concurrency=concurrency,
        evaluator_concurrency=evaluator_concurrency,
        retries=retries,
        item_timeout_seconds=item_timeout_seconds,
        repetitions=repetitions,
        cache=cache,
        data_dir=data_dir,
        new=new,
        progress=progress,
    )


async def _run(
    pressed: Interrupts,
    *,
    dataset: Dataset,
    target: Function | str | TargetSpec,
    evaluators: Evaluator | Function | Sequence[Evaluator | Function],
    name: str | None,
    mapping: Mapping[str, str] | None,
    concurrency: int | None,
    evaluator_concurrency: int | None,
    retries: int,
    item_timeout_seconds: float | None,
    repetitions: int,
    cache: bool,
    data_dir: Path | str | None,
    new: bool,
    progress: bool | None,
) -> RunResult:
    flags = {"server": {"data_dir": None if data_dir is None else Path(data_dir)}}
    settings = load_settings(None, flags).settings
    database_url = settings.store.database_url
    await asyncio.to_thread(upgrade, database_url)
    target_spec, functions = target_of(target)
    judges = evaluators_of(evaluators)
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
        repetitions=repetitions,
        cache=cache,
    )
    async with await open_store(database_url) as store:
        context = Context(
            functions={**functions, **own},
            modules=str(Path.cwd()),
            audio_folder=audio_folder_of(settings.server.data_dir),
            own_fleet=fleet_of_folder(settings.server.data_dir, settings.server.tls_cert),
        )
        bench = _Bench(store, settings.lab, context)
        with shown_here(progress) as display, in_words():
            mark = _mark(spec, {**functions, **own})
            carried_out = bench.carry_out(spec, dataset, mark, pressed, display, new=new)
            experiment_id, run_id, summary = await carried_out
    if pressed.count:
        stats = summary.stats
        raise Interrupted(
            f"Stopped. The results of {stats.success} of {summary.items} items are kept. To resume "
            f"{summary.name!r} ({experiment_id}), call lab.run with the same arguments."
        )
    return RunResult(
        database_url, DEFAULT_TENANT, experiment_id, run_id, summary, {**functions, **own}
    )


def score_stored(
    result: RunResult,
    evaluators: Evaluator | Function | Sequence[Evaluator | Function],
    progress: bool | None,
) -> RunResult:
    """Score the stored outputs of a result; `RunResult.score` says more."""

    def scoring(pressed: Interrupts) -> Coroutine[Any, Any, RunResult]:
        return _score(pressed, result, evaluators, progress)

    return _ended(lambda: _in_a_thread(scoring))


async def _score(
    pressed: Interrupts,
    result: RunResult,
    evaluators: Evaluator | Function | Sequence[Evaluator | Function],
    progress: bool | None,
) -> RunResult:
    judges = evaluators_of(evaluators)
    own = {one.spec.name: one.function for one in judges if one.function is not None}
    functions = {**result.functions, **own}
    settings = load_settings(None, {}).settings
    async with await open_store(result.database_url) as store:
        bench = _Bench(store, settings.lab, Context(functions=functions, modules=str(Path.cwd())))
        with shown_here(progress) as display, in_words():
            specs = [one.spec for one in judges]
            scored = bench.score(result.experiment_id, specs, pressed, display)
            experiment_id, run_id, summary = await scored
    if pressed.count:
        raise Interrupted(
            f"Stopped. What was scored is kept. To score the rest of {summary.name!r} "
            f"({experiment_id}), call score with the same evaluators."
        )
    return RunResult(result.database_url, DEFAULT_TENANT, experiment_id, run_id, summary, functions)


_DRIVER_LOG = "dragoman.lab.scheduler.driver"


class _InWords(logging.Filter):
    """Says in a sentence what the lab logs while a program runs it.

    A program that has set up no logging would print the bare name of the event.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.getMessage() == "lab_items_taken_back":
            items = getattr(record, "fields", {}).get("items", 0)
            shown = "1 item is" if items == 1 else f"{items} items are"
            record.msg = f"{shown} done again: the process at work on the run has ended."
            record.args = ()
        return True


@contextmanager
def in_words() -> Iterator[None]:
    """Have what the driver logs be readable in any program."""
    log, words = logging.getLogger(_DRIVER_LOG), _InWords()
    log.addFilter(words)
    try:
        yield
    finally:
        log.removeFilter(words)


class _Bench:
    """A lab of the program's own, for one experiment."""

    def __init__(self, store: Store, settings: LabSettings, context: Context) -> None:
        clock: Clock = SystemClock()
        randomness = Randomness()
        self._store = store
        self._library = Library(
            store,
            settings,
            clock,
            randomness.stream("datasets"),
            audio_folder=context.audio_folder,
        )
        self._clock = clock
        self._lease_ms = round(settings.lease_seconds * 1000)
        self._lab = Lab(
            store, settings, clock, randomness, Metrics(), context=context, role=EMBEDDED
        )

    async def carry_out(
        self,
        spec: ExperimentSpec,
        dataset: Dataset,
        mark: str,
        pressed: Interrupts,
        display: Display,
        *,
        new: bool,
    ) -> tuple[ExperimentId, RunId, Summary]:
        async with self._lab:
            version_id = await self._version(dataset)
            spec = msgspec.structs.replace(spec, dataset_version_id=version_id, description=mark)
            experiment_id, run_id = await self._begin(spec, display, new=new)
            return await self._see_through(experiment_id, run_id, pressed, display)

    async def score(
        self,
        experiment_id: ExperimentId,
        evaluators: Sequence[EvaluatorSpec],
        pressed: Interrupts,
        display: Display,
    ) -> tuple[ExperimentId, RunId, Summary]:
        """Score the stored outputs of an experiment."""
        async with self._lab:
            started = await self._lab.experiments.score(DEFAULT_TENANT, experiment_id, evaluators)
            return await self._see_through(experiment_id, started.run_id, pressed, display)

    async def _see_through(
        self, experiment_id: ExperimentId, run_id: RunId, pressed: Interrupts, display: Display
    ) -> tuple[ExperimentId, RunId, Summary]:
        watched = _Watched(self._lab, experiment_id)
        telling = asyncio.create_task(self._tell_of_end(experiment_id, pressed))
        try:
            await watch(watched, pressed, display, look_seconds=_LOOK_SECONDS)
            return experiment_id, run_id, await self._summary(experiment_id)
        except asyncio.CancelledError:
            # No item is begun any more, and every result is kept.
            await asyncio.shield(self._stop(watched))
            raise
        finally:
            telling.cancel()

    async def _begin(
        self, spec: ExperimentSpec, display: Display, *, new: bool
    ) -> tuple[ExperimentId, RunId]:
        """Resume the same experiment if it is unfinished, else make a new one."""
        while True:
            latest, free_name = await self._latest(spec.name)
            if latest is not None and not new and _is_same(latest.spec, spec):
                run_id = await self._gone_on_with(latest, spec)
                if run_id is not None:
                    display.say(f"Resuming {latest.spec.name} ({latest.experiment_id}).")
                    return latest.experiment_id, run_id
            named = msgspec.structs.replace(spec, name=free_name)
            try:
                made, started = await self._lab.experiments.submit(DEFAULT_TENANT, named)
            except NameTaken:
                continue  # another run took it at the same moment
            return made.experiment_id, started.run_id

    async def _latest(self, name: str) -> tuple[Experiment | None, str]:
        """The latest experiment of that name, and the name of the next one."""
        latest: Experiment | None = None
        free, number = name, 1
        while (found := await self._lab.experiments.find(DEFAULT_TENANT, free)) is not None:
            latest, number = found, number + 1
            free = f"{name} #{number}"
        return latest, free

    async def _gone_on_with(self, found: Experiment, spec: ExperimentSpec) -> RunId | None:
        """Resume an experiment; None when it is finished or runs elsewhere."""
        if found.status in _FINISHED:
            return None
        if found.run_id is not None and found.status in ACTIVE:
            run_id = found.run_id
            if await self._store.read(lambda c: self._is_driven(c, run_id)):
                return None
            self._lab.resume(run_id)
            return run_id
        experiments = self._lab.experiments
        await experiments.change(
            DEFAULT_TENANT,
            found.experiment_id,
            concurrency=spec.concurrency,
            retries=spec.retries,
        )
        mode = RunMode.SUBMIT if found.run_id is None else RunMode.FAIL_RETRY
        try:
            started = await experiments.start(DEFAULT_TENANT, found.experiment_id, StartAsk(mode))
        except ExperimentRunning:
            return None  # another run resumed it at the same moment
        return started.run_id

    def _is_driven(self, connection: StoreConnection, run_id: RunId) -> bool:
        """Whether a process drives the run, or is about to."""
        run = runs.find_run(connection, run_id)
        held = leases.find(connection, runs.lease_name(run_id))
        if run is None or held is None:
            # A new run has no driver for a moment.
            return run is not None and self._clock.now_ms() - run.created_at_ms < self._lease_ms
        lease, is_over = held
        return not is_over and not is_gone(lease.owner)

    async def _tell_of_end(self, experiment_id: ExperimentId, pressed: Interrupts) -> None:
        with self._lab.feed.watch(experiment_id) as watcher:
            async for change in watcher:
                if isinstance(change, RunEnded):
                    pressed.look_now()

    async def _summary(self, experiment_id: ExperimentId) -> Summary:
        overview = await self._lab.experiments.show(DEFAULT_TENANT, experiment_id)
        experiment = overview.experiment
        started_ms, ended_ms = experiment.started_at_ms, experiment.ended_at_ms
        return Summary(
            name=experiment.spec.name,
            status=experiment.status,
            reason=experiment.reason,
            stats=overview.stats,
            items=overview.items,
            duration_seconds=None
            if started_ms is None or ended_ms is None
            else (ended_ms - started_ms) / 1000,
            aggregates=await Results(self._store).aggregates(DEFAULT_TENANT, experiment_id),
        )

    async def _stop(self, watched: _Watched) -> None:
        try:
            await watched.stop(let_finish=False)
        except ExperimentNotRunning:
            return
        await watch(watched, Interrupts(), Quiet(), look_seconds=_LOOK_SECONDS / 10)

    async def _version(self, dataset: Dataset) -> VersionId:
        """The version that the dataset means; a file or rows are imported."""
        if isinstance(dataset, DatasetFile):
            return await self._import_file(dataset)
        if isinstance(dataset, str | Path):
            if await asyncio.to_thread(Path(dataset).is_file):
                return await self._import_file(DatasetFile(dataset))
            known = await self._library.find_named(DEFAULT_TENANT, str(dataset))
            if known is None:
                raise no_dataset(str(dataset))
            return known.latest.version_id
        with await asyncio.to_thread(rows_as_file, dataset) as file:
            return await self._import("rows", OpenedTable(file, Format.JSONL, None, None))

    async def _import_file(self, wanted: DatasetFile) -> VersionId:
        with ExitStack() as stack:
            try:
                table = await asyncio.to_thread(stack.enter_context, opened_table(wanted))
            except OSError as error:
                raise unreadable(wanted, error) from None
            return await self._import(Path(wanted.path).name, table)

    async def _import(self, name: str, table: OpenedTable) -> VersionId:
        """The file as a version of the dataset of its name; the same rows are the same version."""
        while True:
            known = await self._library.find_named(DEFAULT_TENANT, name)
            table.file.seek(0)
            described = (table.file, table.file_format, table.schema, table.audio)
            try:
                if known is None:
                    added = await self._library.add(DEFAULT_TENANT, name, *described)
                else:
                    added = await self._library.add_version(
                        DEFAULT_TENANT, known.dataset_id, *described
                    )
            except (NameTaken, NotFound):
                continue  # another run made the dataset, or deleted it, at the same moment
            return added.version.version_id


def no_dataset(name: str) -> InvalidMessage:
    """The refusal of a dataset that is neither a file nor in the lab."""
    return InvalidMessage(
        f"There is no file and no dataset {name!r}; give a path to a .jsonl, .csv or .parquet "
        "file, the name of a dataset, or the rows themselves."
    )


def unreadable(wanted: DatasetFile, error: OSError) -> InvalidMessage:
    """The refusal of a dataset's file that cannot be read."""
    return InvalidMessage(f"The dataset {wanted.path} cannot be read ({error.strerror}).")


def rows_as_file(rows: Iterable[Mapping[str, JsonValue]]) -> BinaryIO:
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
            # The encoder writes null for NaN and infinities, which are not missing values.
            checked_json(msgspec.to_builtins(row), "row")
    except (TypeError, ValueError, RecursionError) as error:
        raise DatasetInvalid(
            f"Nothing was imported. Row {number} cannot be stored: {error}"
        ) from None
    return line + b"\n"


def _named_after(target: Function | str | TargetSpec) -> str:
    if isinstance(target, TargetSpec):
        return target.kind
    return target if isinstance(target, str) else str(getattr(target, "__name__", "function"))


class _Watched:
    """A run of this program's own lab."""

    def __init__(self, lab: Lab, experiment_id: ExperimentId) -> None:
        self._lab = lab
        self._experiment_id = experiment_id

    async def look(self) -> Reached:
        found = await self._lab.experiments.show(DEFAULT_TENANT, self._experiment_id)
        return Reached(found.experiment.status, found.stats, found.items, found.eta_seconds)

    async def stop(self, *, let_finish: bool) -> None:
        await self._lab.experiments.kill(DEFAULT_TENANT, self._experiment_id, let_finish=let_finish)

    async def find_again(self) -> None:
        pass


def _is_same(found: ExperimentSpec, asked: ExperimentSpec) -> bool:
    return (found.dataset_version_id, found.description) == (
        asked.dataset_version_id,
        asked.description,
    )


def _mark(spec: ExperimentSpec, functions: Mapping[str, Function]) -> str:
    """The hash of everything that decides the results; functions count by their location."""
    deciding = (
        spec.target,
        spec.evaluators,
        sorted(spec.mapping.items()),
        spec.evaluator_concurrency,
        spec.item_timeout_seconds,
        *(["cache"] if spec.cache else []),
        sorted((name, _place_of(function)) for name, function in functions.items()),
    )
    repeated = () if spec.repetitions == 1 else (spec.repetitions,)
    content = msgspec.json.Encoder(order="sorted").encode((*deciding, *repeated))
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _place_of(function: Function) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '')}:{getattr(named, '__qualname__', '')}"


def _blocking(
    function: Callable[Asked, Coroutine[Any, Any, RunResult]],
) -> Callable[Asked, RunResult]:
    """The function for programs that have no event loop, with Ctrl-C as its docstring says."""
    defaults = {
        name: parameter.default for name, parameter in signature(function).parameters.items()
    }

    @wraps(function)
    def blocking(*args: Asked.args, **kwargs: Asked.kwargs) -> RunResult:
        if args:
            raise TypeError("lab.run takes keyword arguments only, such as dataset=... .")
        if unknown := kwargs.keys() - defaults.keys():
            raise TypeError(f"lab.run has no argument {min(unknown)!r}.")
        asked = {**defaults, **kwargs}
        if missing := [name for name, value in asked.items() if value is Parameter.empty]:
            raise TypeError(f"lab.run needs the argument {missing[0]!r}.")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _ended(lambda: asyncio.run(_with_signals(asked)))
        if notebook() is not None:
            return _ended(lambda: _in_a_thread(lambda pressed: _run(pressed, **asked)))
        raise RuntimeError(
            "lab.run cannot be used inside an event loop; use `await lab.arun(...)`."
        )

    return blocking


async def _with_signals(asked: Mapping[str, Any]) -> RunResult:
    with interrupts() as pressed:
        return await _run(pressed, **asked)


def _in_a_thread(work: Callable[[Interrupts], Coroutine[Any, Any, RunResult]]) -> RunResult:
    """Run it beside the event loop of a notebook, whose Ctrl-C comes to the thread that waits."""
    started: Future[tuple[asyncio.AbstractEventLoop, Interrupts]] = Future()

    async def main() -> RunResult:
        pressed = Interrupts()
        started.set_result((asyncio.get_running_loop(), pressed))
        return await work(pressed)

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, main())
        while True:
            try:
                return running.result()
            except KeyboardInterrupt:
                if running.done():
                    raise
                loop, pressed = started.result()
                loop.call_soon_threadsafe(pressed.press)


def _ended(call: Callable[[], RunResult]) -> RunResult:
    """The call's result; when Ctrl-C stopped it, the program ends with one sentence."""
    try:
        return call()
    except Interrupted as stopped:
        Quiet().say(str(stopped))
        raise stopped.with_traceback(None) from None


if TYPE_CHECKING:
    # Spelled out, because mypy cannot infer it in time: `dragoman.lab` imports it in a circle.
    def run(
        *,
        dataset: Dataset,
        target: Function | str | TargetSpec,
        evaluators: Evaluator | Function | Sequence[Evaluator | Function] = (),
        name: str | None = None,
        mapping: Mapping[str, str] | None = None,
        concurrency: int | None = None,
        evaluator_concurrency: int | None = None,
        retries: int = DEFAULT_RETRIES,
        item_timeout_seconds: float | None = None,
        repetitions: int = 1,
        cache: bool = False,
        data_dir: Path | str | None = None,
        new: bool = False,
        progress: bool | None = None,
    ) -> RunResult: ...

else:
    run = _blocking(arun)
    """`arun` for programs that have no event loop."""
