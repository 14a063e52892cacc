"""``dragoman simulate``: the live plane on a virtual clock, for capacity planning and faults."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.server_client import TokenOption
from dragoman.cli.showing import JsonOption, console, print_json, print_table, say
from dragoman.errors import SettingsError
from dragoman.observability import configure_logging
from dragoman.simulation import (
    EXAMPLE,
    UNITS,
    FaultSearch,
    Goal,
    NoFleetMeetsIt,
    Plan,
    RunFigures,
    Runner,
    Scenario,
    ScenarioComparison,
    SimulationReport,
    compare,
    comparison_page,
    cores,
    faults_as_toml,
    find_faults,
    make_report,
    plan,
    read_goal,
    read_scenario,
    report_page,
    row_cells,
    shown_estimate,
)

_SLOWEST_LOOK = 0.2
_DEFAULT_RUNS = 5


def simulate(
    scenario: Annotated[
        Path | None, typer.Argument(metavar="SCENARIO.toml", help="What to play.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="The seed of the first run.", min=0)
    ] = 0,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            metavar="N",
            min=1,
            max=10_000,
            help="Runs with this and the following seeds, for intervals.  [default: 1; 5 with "
            "--compare]",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="DIR", help="Write report.html and report.json into this folder."
        ),
    ] = None,
    compared: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare", metavar="A.toml B.toml", help="Play two scenarios, side by side."
        ),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="GOAL",
            help='Find the cheapest fleet that meets a goal: "p99 < 1500ms and refused < 0.1%".',
        ),
    ] = None,
    search: Annotated[
        bool,
        typer.Option("--find-faults", help="Search for the faults that break a promise."),
    ] = False,
    promise: Annotated[
        str | None,
        typer.Option(
            "--promise",
            metavar="GOAL",
            help="With --find-faults: what must hold, besides what the scheduler always promises.",
        ),
    ] = None,
    most_faults: Annotated[
        int,
        typer.Option(
            "--max-faults", metavar="K", min=1, max=20, help="With --find-faults: at a time."
        ),
    ] = 3,
    schedules: Annotated[
        int,
        typer.Option(
            "--schedules", metavar="N", min=1, max=1_000_000, help="With --find-faults: to play."
        ),
    ] = 200,
    example: Annotated[
        bool, typer.Option("--example", help="Print a scenario with every key, and exit.")
    ] = False,
    from_server: Annotated[
        str | None,
        typer.Option(
            "--from-server",
            metavar="URL",
            help="Print a scenario made of what a server's fleet does, and exit.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            max=256,
            help="Runs at a time.  [default: one a core]",
        ),
    ] = None,
    as_json: JsonOption = False,
    token: TokenOption = None,
) -> None:
    """Play a fleet on a virtual clock: plan capacity, find faults.

    The scheduler is the one that `dragoman serve` runs, and the same seed gives the same figures.
    Begin with: dragoman simulate --example > monday.toml
    """
    chosen = [
        name
        for name, given in (
            ("--example", example),
            ("--from-server", from_server is not None),
            ("--compare", compared is not None),
            ("--plan", goal is not None),
            ("--find-faults", search),
        )
        if given
    ]
    _check_options(chosen, scenario, promise)
    configure_logging("error", "console")
    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    if from_server is not None:
        from dragoman.cli.simulate_from_server import scenario_from_server

        typer.echo(scenario_from_server(from_server, token), nl=False)
        return
    at_once = processes or cores()
    if compared is not None:
        seeds = range(seed, seed + (runs or _DEFAULT_RUNS))
        _compare(compared, seeds, at_once, report, as_json)
        return
    assert scenario is not None, "the options were checked"
    wanted = read_scenario(scenario)
    if goal is not None:
        seeds = range(seed, seed + (runs or 1))
        _plan(wanted, read_goal(goal), seeds, at_once, report, as_json)
    elif search:
        stated = read_goal(promise, "--promise") if promise is not None else Goal()
        with Runner(at_once) as runner, _progress(schedules, None) as told:
            found = find_faults(
                wanted,
                stated,
                most_faults=most_faults,
                schedules=schedules,
                seed=seed,
                runner=runner,
                on_schedule=lambda played, _: told(played),
            )
        _show_faults(scenario, found, report, as_json)
    else:
        made = _played(wanted, range(seed, seed + (runs or 1)), at_once)
        _write_report(report, report_page(made), made.as_json())
        if as_json:
            typer.echo(made.as_json(), nl=False)
        else:
            _show(made)
        _fail_if_broken(made.runs)


def _check_options(chosen: Sequence[str], scenario: Path | None, promise: str | None) -> None:
    if len(chosen) > 1:
        raise SettingsError(f"{chosen[0]} and {chosen[1]} cannot be used together; choose one.")
    without = chosen and chosen[0] in ("--example", "--from-server", "--compare")
    if without and scenario is not None:
        raise SettingsError(f"{chosen[0]} takes no scenario besides; leave out {scenario}.")
    if not without and scenario is None:
        raise SettingsError(
            "No scenario was named; begin with `dragoman simulate --example > monday.toml`."
        )
    if promise is not None and "--find-faults" not in chosen:
        raise SettingsError("--promise is for --find-faults; add that, or leave it out.")


# --- playing -----------------------------------------------------------------------------------


def _played(scenario: Scenario, seeds: Sequence[int], processes: int) -> SimulationReport:
    with (
        Runner(min(processes, len(seeds))) as runner,
        _progress(len(seeds), scenario.duration_seconds) as told,
    ):
        runs = runner.run([(scenario, seed) for seed in seeds], told)
    return make_report(scenario, runs)


def _compare(
    paths: tuple[Path, Path],
    seeds: Sequence[int],
    processes: int,
    report: Path | None,
    as_json: bool,
) -> None:
    scenarios = [read_scenario(path) for path in paths]
    both = [(scenario, seed) for scenario in scenarios for seed in seeds]
    seconds = sum(scenario.duration_seconds for scenario in scenarios) / 2
    with Runner(min(processes, len(both))) as runner, _progress(len(both), seconds) as told:
        runs = runner.run(both, told)
    a = make_report(scenarios[0], runs[: len(seeds)])
    b = make_report(scenarios[1], runs[len(seeds) :])
    comparison = compare(a, b)
    _write_report(report, comparison_page(comparison), comparison.as_json())
    if as_json:
        typer.echo(comparison.as_json(), nl=False)
    else:
        _show_comparison(comparison)
    _fail_if_broken([*a.runs, *b.runs])


def _plan(
    scenario: Scenario,
    goal: Goal,
    seeds: Sequence[int],
    processes: int,
    report: Path | None,
    as_json: bool,
) -> None:
    def tried(nodes: Sequence[int], is_met: bool) -> None:
        named = zip(scenario.fleet, nodes, strict=True)
        fleet = ", ".join(f"{count} x {group.name}" for group, count in named)
        say(f"{fleet}: {'meets it' if is_met else 'does not'}", err=True)

    try:
        with Runner(min(processes, len(seeds))) as runner:
            found = plan(
                scenario, goal, seeds=seeds, runner=runner, on_try=None if as_json else tried
            )
    except NoFleetMeetsIt as refusal:
        if as_json:
            print_json({"goal": str(goal), "nodes": None, "problem": refusal.message})
        raise
    made = make_report(found.scenario, found.runs)
    _write_report(report, report_page(made), made.as_json())
    if as_json:
        print_json(
            {
                "goal": str(goal),
                "nodes": found.nodes,
                "cost": found.scenario.cost,
                "fleets_tried": found.fleets_tried,
                "report": made,
            }
        )
    else:
        _show_plan(found, goal, made)


@contextmanager
def _progress(total: int, seconds_each: float | None) -> Iterator[Callable[[float], None]]:
    """A bar on a terminal, with the speed in times of life and the time left."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [
        TextColumn("{task.percentage:3.0f} %"),
        BarColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, speed="")

        def told(done: float) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            speed = ""
            if elapsed > _SLOWEST_LOOK and seconds_each is not None:
                speed = f"{done * seconds_each / elapsed:.0f} x life"
            elif elapsed > _SLOWEST_LOOK:
                speed = f"{done / elapsed:.1f} schedules/s"
            bar.update(task, completed=done, speed=speed)

        yield told


# --- showing -----------------------------------------------------------------------------------


def _show(report: SimulationReport) -> None:
    first = report.runs[0]
    say(
        f"{report.scenario}: {report.duration_seconds:g} s, {report.nodes} nodes, {report.slots}"
        f" slots, {len(report.runs)} run(s) from seed {report.seeds[0]}"
    )
    say()
    _show_metrics(report)
    headings = ("asked", "served", "not served", "why", "wait p50", "p95", "p99", "total p50",
                "p95", "p99 ms")  # fmt: skip
    say()
    print_table(
        ("pair", *headings),
        [(f"{pair.pair} ({pair.traffic})", *row_cells(pair.whole)) for pair in first.pairs],
        empty="There was no traffic.",
    )
    say()
    print_table(
        ("hour", *headings),
        [(hour, *row_cells(row)) for hour, row in first.hours.items()],
        empty="Nothing was asked for.",
    )
    say()
    print_table(
        ("group", "nodes", "slots", "busy", "most busy"),
        [
            (group.name, group.nodes, group.slots, f"{100 * group.busy_share:.1f} %",
             group.most_busy)
            for group in first.groups
        ],
        empty="There was no fleet.",
    )  # fmt: skip
    say()
    say(f"First bottleneck: {report.bottleneck}")
    _show_broken(report.runs)


def _show_metrics(report: SimulationReport) -> None:
    print_table(
        ("figure", "mean ± 95 %" if len(report.runs) > 1 else "one run"),
        [
            (f"{name} {UNITS[name]}".strip(), shown_estimate(value))
            for name, value in report.metrics.items()
        ],
        empty="",
    )


def _show_comparison(comparison: ScenarioComparison) -> None:
    a, b = comparison.a, comparison.b
    print_table(
        ("figure", f"A: {a.scenario}", f"B: {b.scenario}", "B less A", "clear"),
        [
            (
                f"{one.metric} {one.unit}".strip(),
                shown_estimate(one.a),
                shown_estimate(one.b),
                shown_estimate(one.change, sign=True),
                "yes" if one.is_clear else "no",
            )
            for one in comparison.differences
        ],
        empty="",
    )
    say()
    for letter, report in (("A", a), ("B", b)):
        say(f"First bottleneck of {letter}: {report.bottleneck}")
        _show_broken(report.runs)


def _show_plan(found: Plan, goal: Goal, report: SimulationReport) -> None:
    fleet = ", ".join(f"{count} x {name}" for name, count in found.nodes.items())
    say(f"{fleet}, at a cost of {found.scenario.cost:g}: the cheapest fleet that meets {goal}")
    say(f"{found.fleets_tried} fleets were tried with {len(report.runs)} run(s) each.")
    say()
    _show_metrics(report)
    say()
    say(f"First bottleneck: {report.bottleneck}")
    _show_broken(report.runs)


def _show_faults(path: Path, found: FaultSearch, report: Path | None, as_json: bool) -> None:
    worst = found.worst
    schedule = faults_as_toml(worst.faults)
    if report is not None:
        _write(report / "faults.toml", schedule.encode())
    if as_json:
        print_json(
            {
                "broken": found.broken,
                "schedules": found.schedules,
                "seed": worst.seed,
                "faults": [
                    {
                        "kind": fault.kind.value,
                        "at_seconds": fault.at_seconds,
                        "for_seconds": fault.for_seconds,
                        "group": fault.group,
                        "nodes": fault.nodes,
                        "factor": fault.factor,
                    }
                    for fault in worst.faults
                ],
                "figures": worst.figures,
            }
        )
    elif found.broken:
        faults = len(worst.faults)
        say(f"Schedule {found.schedules} broke a promise; {faults} of its fault(s) are enough:")
        for broken in found.broken:
            say(f"  {broken}")
        say()
        say(schedule or "# without any fault")
        say(f"Put these tables into {path} and replay them with --seed {worst.seed}.")
    else:
        say(f"None of {found.schedules} schedules broke a promise. The worst, with --seed"
            f" {worst.seed}:")  # fmt: skip
        say()
        say(schedule or "# without any fault")
        row = worst.figures.whole
        say(
            f"{100 * row.refused_share:.3f} % were not served; p99 {row.total_ms.p99:.0f} ms,"
            f" waiting {row.wait_ms.p99:.0f} ms."
        )
    if found.broken:
        raise typer.Exit(1)


def _show_broken(runs: Sequence[RunFigures]) -> None:
    for run in runs:
        for broken in run.violations:
            console().print(f"Broken promise (seed {run.seed}): {broken}", style="bold red")


def _fail_if_broken(runs: Sequence[RunFigures]) -> None:
    """A scheduler that broke its own promises is a failure, whatever the figures are."""
    if any(run.violations_total for run in runs):
        raise typer.Exit(1)


def _write_report(folder: Path | None, page: str, figures: bytes) -> None:
    if folder is not None:
        _write(folder / "report.html", page.encode())
        _write(folder / "report.json", figures)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise SettingsError(f"--report: {path} cannot be written ({error.strerror}).") from error
