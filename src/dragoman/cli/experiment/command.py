"""The commands themselves."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from dragoman.api import ExperimentView
from dragoman.cli.app import FAILED, INTERRUPTED
from dragoman.cli.experiment.experiment_file import ExperimentFile, read_experiment_file
from dragoman.cli.experiment.gate import Gate, judge
from dragoman.cli.experiment.identity import find_meant
from dragoman.cli.experiment.summary import (
    print_experiments,
    print_rows,
    print_summary,
    print_verdicts,
)
from dragoman.cli.experiment.watching import Stopped, until_ended, watch
from dragoman.cli.lab.access import DataDirOption, TokenOption, UrlOption, Way, with_lab
from dragoman.cli.lab.client import LabClient
from dragoman.errors import InvalidFilter
from dragoman.lab.states import ENDED, Mode, RunStatus

app = typer.Typer(
    name="experiment",
    help="Run experiments, and look after those there are.",
    no_args_is_help=True,
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The experiment's id, or its name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_PIPE_WIDTH = 200


@app.command("run")
def run_command(
    file: Annotated[Path, typer.Argument(metavar="EXP.toml", help="What to run.")],
    new: Annotated[
        bool, typer.Option("--new", help="Begin a new experiment, also if one is unfinished.")
    ] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="Fail also when the file has no [gate].")
    ] = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Run the experiment that a file describes, or go on with it.

    The same name, file and dataset version is the same experiment: unfinished, it goes on;
    finished, a new one (`NAME #2`) is made. Exit code 1 when the run or its [gate] failed. Ctrl-C
    stops it and keeps what is done.
    """
    read = read_experiment_file(file)
    if gate and not read.gate:
        typer.echo(f"error: {file} has no [gate], and --gate asks for one.", err=True)
        raise typer.Exit(FAILED)
    way = Way(url, data_dir, token, modules=file.parent)
    again = f"dragoman experiment run {shlex.quote(str(file))}{way.as_options()}"

    async def work(lab: LabClient) -> int:
        experiment_id = await _begin(lab, read, new=new)
        return await _see_through(lab, experiment_id, read.gate, again)

    raise typer.Exit(with_lab(way, work))


@app.command("list")
def list_command(
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show every experiment, the latest first."""

    async def work(lab: LabClient) -> None:
        found = await lab.experiments()
        if as_json:
            _print_json(found)
        else:
            print_experiments(_console(), found)

    with_lab(Way(url, data_dir, token), work)


@app.command("show")
def show_command(
    experiment: IdArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show an experiment: how far it is, and its scores so far."""

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        reached = await lab.aggregates(found.experiment_id)
        if as_json:
            _print_json({"experiment": found, "aggregates": reached})
        else:
            print_summary(_console(), found, reached)

    with_lab(Way(url, data_dir, token), work)


@app.command("results")
def results_command(
    experiment: IdArgument,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="JSON",
            help='Only rows such as \'{"field": "score.exact", "op": "<", "value": 1}\'.',
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Most rows.")] = 100,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show rows of an experiment."""
    try:
        tree = None if wanted is None else msgspec.json.decode(wanted)
    except msgspec.DecodeError as error:
        raise InvalidFilter(f"The filter is no JSON ({error}).") from None

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        rows = await lab.results(found.experiment_id, tree, most=limit)
        if as_json:
            _print_json(rows)
        else:
            print_rows(_console(), rows)

    with_lab(Way(url, data_dir, token), work)


@app.command("retry")
def retry_command(
    experiment: IdArgument,
    mode: Annotated[
        Mode, typer.Option(metavar="MODE", help="fail_retry, or retry_all for every item.")
    ] = Mode.FAIL_RETRY,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Try again what failed or was stopped; what went well is kept."""
    way = Way(url, data_dir, token)
    again = f"dragoman experiment retry {shlex.quote(experiment)}{way.as_options()}"

    async def work(lab: LabClient) -> int:
        found = await lab.experiment(experiment)
        await lab.start(found.experiment_id, mode)
        return await _see_through(lab, found.experiment_id, (), again)

    raise typer.Exit(with_lab(way, work))


@app.command("kill")
def kill_command(
    experiment: IdArgument,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """End the run of an experiment."""

    async def work(lab: LabClient) -> None:
        found = await lab.experiment(experiment)
        await lab.kill(found.experiment_id)
        typer.echo(f"{found.name} ({found.experiment_id}) is being stopped.")
        if lab.resume is not None:  # no server does it when this command has gone
            await until_ended(lab, found.experiment_id)

    with_lab(Way(url, data_dir, token), work)


async def _begin(lab: LabClient, file: ExperimentFile, *, new: bool) -> str:
    """Start the experiment that the file means, or go on with it; its id."""
    meant = await find_meant(lab, file, new=new)
    unfinished = meant.unfinished
    if unfinished is None:
        made = await lab.submit(file.order(meant.name, meant.version_id))
        typer.echo(f"Running {meant.name} ({made.experiment_id}).")
        return made.experiment_id
    typer.echo(f"Going on with {unfinished.name} ({unfinished.experiment_id}).")
    if unfinished.run_id is None:
        await lab.start(unfinished.experiment_id, Mode.SUBMIT)
    elif unfinished.status in ENDED:
        await lab.start(unfinished.experiment_id, Mode.FAIL_RETRY)
    elif lab.resume is not None:
        lab.resume(unfinished.run_id)
    return unfinished.experiment_id


async def _see_through(lab: LabClient, experiment_id: str, gate: Gate, again: str) -> int:
    """Watch the run to its end and tell how it ended; the exit code."""
    console = _console()
    try:
        found = await watch(lab, experiment_id, console=console)
    except Stopped as stopped:
        _say_how_to_go_on(stopped.experiment, again)
        return INTERRUPTED
    reached = await lab.aggregates(experiment_id)
    print_summary(console, found, reached)
    verdicts = judge(gate, reached)
    print_verdicts(console, verdicts)
    if found.status == RunStatus.TERMINATED:
        _say_how_to_go_on(found, again)
    passed = all(verdict.passed for verdict in verdicts)
    return 0 if found.status == RunStatus.SUCCESS and passed else FAILED


def _say_how_to_go_on(found: ExperimentView, again: str) -> None:
    typer.echo(
        f"Stopped; {found.stats.success} items are done and kept. To go on: {again}", err=True
    )


def _console() -> Console:
    return Console(width=None if Console().is_terminal else _PIPE_WIDTH)


def _print_json(found: object) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
