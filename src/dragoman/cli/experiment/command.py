"""The commands themselves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from dragoman.api import ExperimentView
from dragoman.cli.app import FAILED, INTERRUPTED
from dragoman.cli.experiment.annotating import (
    annotate_from,
    annotate_row,
    remove_annotation,
)
from dragoman.cli.experiment.appending import append_command, finish_command, invoke_command
from dragoman.cli.experiment.comparing import compare_command, compare_with_last, read_tree
from dragoman.cli.experiment.estimating import agreed, can_ask, dry_run
from dragoman.cli.experiment.experiment_file import (
    ExperimentFile,
    read_evaluators,
    read_experiment_file,
)
from dragoman.cli.experiment.gate import Gate
from dragoman.cli.experiment.identity import Meant, find_meant
from dragoman.cli.experiment.judging import check_baselines, judge_run
from dragoman.cli.experiment.summary import (
    print_annotations,
    print_experiments,
    print_groups,
    print_rows,
    print_summary,
    print_verdicts,
)
from dragoman.cli.experiment.watching import Stopped, until_ended, watch_experiment
from dragoman.cli.lab.access import (
    DataDirOption,
    TokenOption,
    UrlOption,
    Way,
    command_settings,
    with_lab,
)
from dragoman.cli.lab.client import LabClient
from dragoman.cli.lab.files import format_of, written_to
from dragoman.cli.showing import JsonOption, console, print_json, say
from dragoman.errors import (
    DatasetEmpty,
    DatasetInvalid,
    DeniedWord,
    Forbidden,
    InvalidMessage,
    NameTaken,
    SchemaMismatch,
    SettingsError,
)
from dragoman.lab.annotations import this_user
from dragoman.lab.running import Away, Interrupts, interrupts
from dragoman.lab.states import ENDED, RunMode, RunStatus

app = typer.Typer(
    name="experiment",
    help="Run, compare, score, annotate, retry and stop experiments.",
    no_args_is_help=True,
)
app.command("compare")(compare_command)
app.command("append")(append_command)
app.command("invoke")(invoke_command)
app.command("finish")(finish_command)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The experiment's id, or its name.")]

_CANNOT_BE_USED = (DatasetEmpty, DatasetInvalid, DeniedWord, InvalidMessage, SchemaMismatch)
"""Errors that an experiment file causes, and that come again however often it is tried."""


class Retry(StrEnum):
    """The modes that try items again."""

    FAIL_RETRY = RunMode.FAIL_RETRY
    RETRY_ALL = RunMode.RETRY_ALL
    RETRY_ITEMS = RunMode.RETRY_ITEMS


@app.command("run")
def run_command(
    file: Annotated[Path, typer.Argument(metavar="EXP.toml", help="The experiment file.")],
    new: Annotated[
        bool, typer.Option("--new", help="Begin a new experiment, even if one is unfinished.")
    ] = False,
    gate: Annotated[bool, typer.Option("--gate", help="Fail if the file has no [gate].")] = False,
    repetitions: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Try each item N times.  [default: as the file says, or 1]"
        ),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache", help="Answer questions that the target was asked before as it did then."
        ),
    ] = False,
    is_dry: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Try three items, store nothing, and estimate what a run takes."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before a run of many items.")
    ] = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Run the experiment that a file describes, or resume it.

    The same name, file and dataset version mean the same experiment. If it is unfinished, it is
    resumed; if it is finished, a new one (`NAME #2`) is made and compared with the last. Comments,
    the gate, the concurrency, the retries, the weight and the budget may change in between.

    On a terminal, before a new run of more items than the setting lab.ask_above_items, it tries
    three of them, tells what the run will take, and asks. --dry-run does only that, and exits
    with 1 when all three failed.

    The first Ctrl-C starts no more calls, lets the calls in flight finish and keeps every result;
    a second one cancels those calls. Exit code 1 when the run or its [gate] failed, 2 when the
    file cannot be used, 130 after Ctrl-C.
    """
    read = read_experiment_file(file, repetitions=repetitions, cache=cache)
    if gate and not read.gate:
        say(f"error: {file} has no [gate], and --gate asks for one.", err=True)
        raise typer.Exit(FAILED)
    if is_dry:
        raise typer.Exit(_dry_run(read, url, data_dir, token))
    way = Way(url, data_dir, token, modules=file.parent, new=True)
    repeated = "" if repetitions is None else f" --repetitions {repetitions}"
    cached = " --cache" if cache else ""
    options = f"{repeated}{cached}{way.as_options()}"
    again = f"dragoman experiment run {shlex.quote(str(file))}{options}"

    async def work(lab: LabClient) -> int:
        await check_baselines(lab, read.gate, read.described.name, str(file))
        meant = await _meant(lab, read, new=new)
        if not yes and meant.unfinished is None and (code := await _asked(lab, read, meant)):
            return code
        # From here on a run is under way: Ctrl-C must stop it and say how to resume it.
        with interrupts() as interrupted:
            experiment_id = await _begin(lab, read, meant, new=new)
            return await _see_through(
                lab, experiment_id, interrupted, read.gate, again, compares=True
            )

    raise typer.Exit(with_lab(way, work))


@app.command("list")
def list_command(
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List every experiment, newest first."""

    async def work(lab: LabClient) -> None:
        found = await lab.experiments()
        if as_json:
            print_json(found)
        else:
            print_experiments(found)

    with_lab(Way(url, data_dir, token), work)


@app.command("show")
def show_command(
    experiment: IdArgument,
    wanted: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help="Only rows that pass it.")
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Also by the values of a column, such as a domain."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="What belongs together in intervals, such as a speaker."
        ),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show an experiment: its progress, and its scores so far."""
    tree = read_tree(wanted)

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        reached = await lab.aggregates(
            found.experiment_id, tree, group_by=group_by, cluster=cluster
        )
        if as_json:
            print_json({"experiment": found, "aggregates": reached})
            return
        print_summary(found, reached)
        if group_by is not None:
            print_groups(group_by, reached)

    with_lab(Way(url, data_dir, token), work)


@app.command("results")
def results_command(
    experiment: IdArgument,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="JSON",
            help='Which rows, as in \'{"field": "score.exact", "op": "<", "value": 1}\'.',
        ),
    ] = None,
    sort: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Sort by this field, as in latency_ms or score.exact; with - before it, from "
            "the largest down. May be repeated.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Show at most this many rows.")
    ] = 100,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show the rows of an experiment."""
    tree = read_tree(wanted)

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        order = [_sorting(field) for field in sort or ()]
        rows = await lab.results(found.experiment_id, tree, sort=order, most=limit)
        if as_json:
            print_json(rows)
        else:
            print_rows(rows)

    with_lab(Way(url, data_dir, token), work)


@app.command("export")
def export_command(
    experiment: IdArgument,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="JSON",
            help='Which rows, as in \'{"field": "score.exact", "op": "<", "value": 1}\'.',
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="csv, jsonl or parquet.  [default: as the file's name says, else jsonl]",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write.  [default: standard output]")
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Write the rows of an experiment to a file."""
    if out is not None and out.exists():
        raise typer.BadParameter(f"{out} exists already; name another file", param_hint="--out")

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        with written_to(out) as write:
            wanted_format = format_of(out, file_format)
            await lab.export_results(found.experiment_id, wanted, wanted_format, write)

    with_lab(Way(url, data_dir, token), work)


@app.command("retry")
def retry_command(
    experiment: IdArgument,
    mode: Annotated[
        Retry | None,
        typer.Option(
            metavar="MODE",
            help="fail_retry for failed and stopped items, retry_all for every item, retry_items "
            "for those of --item.  [default: fail_retry, or retry_items with --item]",
        ),
    ] = None,
    items: Annotated[
        list[str] | None,
        typer.Option("--item", metavar="ITEM_ID", help="An item to try again; may be repeated."),
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Run failed and stopped items again. Items that succeeded are kept."""
    if mode is None:
        mode = Retry.RETRY_ITEMS if items else Retry.FAIL_RETRY
    if bool(items) is not (mode is Retry.RETRY_ITEMS):
        raise typer.BadParameter("--item and mode retry_items go together", param_hint="--mode")
    way = Way(url, data_dir, token)
    again = f"dragoman experiment retry {shlex.quote(experiment)}{way.as_options()}"

    async def work(lab: LabClient) -> int:
        found = await lab.experiment(experiment)
        if mode is Retry.FAIL_RETRY and await _all_succeeded(lab, found):
            say(f"There was nothing to retry: every item of {found.name} has succeeded.")
            return 0
        with interrupts() as interrupted:
            started = await lab.start(found.experiment_id, mode, items or ())
            code = await _see_through(lab, found.experiment_id, interrupted, (), again)
            if code == INTERRUPTED:
                return code
            run = await lab.run(found.experiment_id, started.run_id)
            # Earlier runs may have made the experiment a success; this run decides.
            return 0 if run.status == RunStatus.SUCCESS else FAILED

    raise typer.Exit(with_lab(way, work))


@app.command("score")
def score_command(
    experiment: IdArgument,
    evaluators: Annotated[
        Path,
        typer.Option(
            "--evaluators",
            metavar="FILE",
            help="A TOML file with [[evaluators]], such as an experiment file.",
        ),
    ],
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Score the stored outputs again, without calling the target.

    New evaluators are added to the experiment; one of the same name replaces the former one. All
    other scores stay, and earlier runs keep what they had.
    """
    given = read_evaluators(evaluators)
    way = Way(url, data_dir, token, modules=evaluators.parent)
    again = f"dragoman experiment retry {shlex.quote(experiment)}{way.as_options()}"

    async def work(lab: LabClient) -> int:
        found = await lab.experiment(experiment)
        with interrupts() as interrupted:
            started = await lab.score(found.experiment_id, given)
            code = await _see_through(lab, found.experiment_id, interrupted, (), again)
            if code == INTERRUPTED:
                return code
            run = await lab.run(found.experiment_id, started.run_id)
            return 0 if run.status == RunStatus.SUCCESS else FAILED

    raise typer.Exit(with_lab(way, work))


@app.command("annotate")
def annotate_command(
    experiment: IdArgument,
    item: Annotated[
        str | None, typer.Argument(metavar="ITEM", help="The item's id, as `results` shows it.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="N", help="What is judged, such as the name of a judge's score."
        ),
    ] = None,
    score: Annotated[float | None, typer.Option(metavar="X", help="A number.")] = None,
    label: Annotated[str | None, typer.Option(metavar="L", help="A word, such as pass.")] = None,
    correction: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the output should have been.")
    ] = None,
    turn: Annotated[int, typer.Option(min=0, metavar="T", help="The turn, from 0.")] = 0,
    repetition: Annotated[
        int, typer.Option(min=1, metavar="R", help="The repetition, from 1.")
    ] = 1,
    annotator: Annotated[
        str | None,
        typer.Option(metavar="WHO", help="Who says it.  [default: the user's login name]"),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A .jsonl or .csv file of annotations, with item_id, name, score, label, "
            "correction, annotator, turn and repetition; only item_id has to be there.",
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what was said under this name.")
    ] = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Say what a person thinks of a row: a score, a label, a correction.

    Said again under the same name, it is changed. `show` tells how far evaluators agree with it.
    """
    who = annotator or this_user()
    said = {"score": score, "label": label, "correction": correction}
    told = {key: value for key, value in said.items() if value is not None}
    if (item is None) == (file is None):
        raise typer.BadParameter("give an ITEM, or a --file of many", param_hint="ITEM")
    if file is not None and (told or remove):
        raise typer.BadParameter("what is said is in the file", param_hint="--file")
    if file is None and name is None:
        raise typer.BadParameter("it is needed", param_hint="--name")
    if file is None and bool(told) is remove:
        raise typer.BadParameter("give --score, --label or --correction, or --remove")

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        if file is not None:
            defaults = {"annotator": who} | ({} if name is None else {"name": name})
            await annotate_from(lab, found.experiment_id, file, defaults)
            return
        row = {"item_id": item, "turn": turn, "repetition": repetition}
        about = {**row, "name": name, "annotator": who}
        if remove:
            await remove_annotation(lab, found.experiment_id, about)
        else:
            await annotate_row(lab, found.experiment_id, {**about, **told})

    with_lab(Way(url, data_dir, token), work)


@app.command("annotations")
def annotations_command(
    experiment: IdArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List what people said of the rows of an experiment."""

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        listed = [one async for one in lab.annotations(found.experiment_id)]
        if as_json:
            print_json(listed)
        else:
            print_annotations(listed)

    with_lab(Way(url, data_dir, token), work)


@app.command("kill")
def kill_command(
    experiment: IdArgument,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Stop the run of an experiment."""

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        await lab.kill(found.experiment_id)
        say(f"{found.name} ({found.experiment_id}) is being stopped.")
        if lab.resume is not None:  # the run is in this process: stay until it has stopped
            await until_ended(lab, found.experiment_id)

    with_lab(Way(url, data_dir, token), work)


@app.command("clear-cache")
def clear_cache_command(
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Forget the cached answers of targets and judges. Results of experiments stay."""

    async def work(lab: LabClient) -> None:
        removed = await lab.clear_cache()
        say(f"{removed:,} cached answers were removed.")

    with_lab(Way(url, data_dir, token), work)


def _dry_run(
    file: ExperimentFile, url: str | None, data_dir: Path | None, token: str | None
) -> int:
    with TemporaryDirectory(prefix="dragoman-dry-run-") as folder:
        scratch = Path(folder)
        way = Way(
            url,
            data_dir,
            token,
            modules=file.path.parent,
            # A dataset of the lab is only in the lab; a file needs no lab of the user's.
            scratch=None if file.dataset_file is None else scratch,
        )

        async def work(lab: LabClient) -> int:
            with _faults_of(file):
                return await dry_run(lab, file, scratch)

        return with_lab(way, work)


async def _asked(lab: LabClient, file: ExperimentFile, meant: Meant) -> int | None:
    """Ask before a run of many items; the exit code if it is not to be started."""
    most = command_settings().lab.ask_above_items
    repetitions = file.described.run.repetitions or 1
    if not most or meant.items * repetitions <= most or not can_ask():
        return None
    with _faults_of(file):
        return await agreed(lab, file.order(meant.name, meant.version_id))


@contextmanager
def _faults_of(file: ExperimentFile) -> Iterator[None]:
    """Say which file is at fault, when what it describes is refused."""
    try:
        yield
    except (*_CANNOT_BE_USED, Forbidden) as error:
        if isinstance(error, Forbidden) and "field" not in error.details:
            raise  # the key is at fault, not the file
        raise SettingsError(f"{file.path}: {error.message}") from error


def _sorting(field: str) -> dict[str, str]:
    descending = field.startswith("-")
    return {"field": field.removeprefix("-"), "order": "desc" if descending else "asc"}


async def _all_succeeded(lab: LabClient, found: ExperimentView) -> bool:
    """Whether the experiment has ended and a retry would find no item to try."""
    if found.run_id is None or found.status not in ENDED or found.stats.success < found.items:
        return False
    # A trial leaves items that were never tried, and its experiment counts only the others.
    return (await lab.run(found.experiment_id, found.run_id)).mode != RunMode.TRIAL


async def _meant(lab: LabClient, file: ExperimentFile, *, new: bool) -> Meant:
    """Which experiment the file means; imports its dataset if the lab does not have it."""
    try:
        return await find_meant(lab, file, new=new)
    except DatasetInvalid as error:
        raise SettingsError(f"{file.dataset_file}: {error.message}") from error


async def _begin(lab: LabClient, file: ExperimentFile, meant: Meant, *, new: bool) -> str:
    """Start or resume the experiment that the file means, and return its id."""
    unfinished = meant.unfinished
    if unfinished is None:
        return await _begin_new(lab, file, meant, new=new)
    say(f"Resuming {unfinished.name} ({unfinished.experiment_id}).")
    if changes := file.changes(unfinished):
        try:
            await lab.change(unfinished.experiment_id, changes)
        except _CANNOT_BE_USED as error:
            raise SettingsError(f"{file.path}: {error.message}") from error
    if unfinished.run_id is None:
        await lab.start(unfinished.experiment_id, RunMode.SUBMIT)
    elif unfinished.status in ENDED:
        await lab.start(unfinished.experiment_id, RunMode.FAIL_RETRY)
    elif lab.resume is not None:
        waits_for = await lab.resume(unfinished.experiment_id, unfinished.run_id)
        if waits_for is not None:
            say(waits_for)
    return unfinished.experiment_id


async def _begin_new(lab: LabClient, file: ExperimentFile, meant: Meant, *, new: bool) -> str:
    try:
        with _faults_of(file):
            made = await lab.submit(file.order(meant.name, meant.version_id))
    except NameTaken:
        # Another command began the same file at the same moment.
        return await _begin(lab, file, await _meant(lab, file, new=new), new=new)
    say(f"Running {meant.name} ({made.experiment_id}).")
    return made.experiment_id


async def _see_through(
    lab: LabClient,
    experiment_id: str,
    interrupted: Interrupts,
    gate: Gate,
    again: str,
    *,
    compares: bool = False,
) -> int:
    """Watch the run to its end, print how it ended, and return the exit code."""
    try:
        found = await watch_experiment(lab, experiment_id, interrupted, console=console())
    except Stopped as stopped:
        _say_how_to_go_on(stopped.experiment, again)
        return INTERRUPTED
    except Away:
        say(
            "The lab does not answer, so the run was not stopped. It goes on when the server is "
            f"back. To watch it again: {again}",
            err=True,
        )
        return INTERRUPTED
    reached = await lab.aggregates(experiment_id)
    print_summary(found, reached)
    last = await compare_with_last(lab, found) if compares else None
    verdicts = await judge_run(lab, gate, found, reached, last)
    print_verdicts(verdicts)
    if found.status == RunStatus.TERMINATED:
        _say_how_to_go_on(found, again)
    passed = all(verdict.passed for verdict, _ in verdicts)
    return 0 if found.status == RunStatus.SUCCESS and passed else FAILED


def _say_how_to_go_on(found: ExperimentView, again: str) -> None:
    say(
        f"Stopped. The results of {found.stats.success} items are kept. To resume: {again}",
        err=True,
    )
