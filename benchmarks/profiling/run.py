"""Prints where a job's calls go, and draws where its time goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from rich.table import Table

from benchmarks.profiling.flame import flame_graph
from benchmarks.profiling.measure import (
    CallerCalls,
    Calls,
    Role,
    calls_of_caller,
    calls_of_chunks,
    calls_of_jobs,
    stacks_of_jobs,
)
from benchmarks.profiling.stages import by_stage

_SHOWN = 0.05
"""Functions called less often than this for each job are left out."""


SIDES = ("server", "node", "client")


def run(quick: bool, svg: Path | None, sides: Collection[str] = SIDES) -> list[Table]:
    """Tables for the server, and for a node and a client that use the SDK."""
    seconds = 2.0 if quick else 6.0
    tables = _server(seconds, svg) if "server" in sides else []
    callers: dict[Role, CallerCalls] = {}
    if "node" in sides:
        callers["node"] = calls_of_caller("node", seconds)
    if "client" in sides:
        callers["client"] = calls_of_caller("client", seconds)
    if callers:
        tables.append(_callers(callers))
    return [*tables, *(_functions(found.calls, role) for role, found in callers.items())]


def _server(seconds: float, svg: Path | None) -> list[Table]:
    job = calls_of_jobs(seconds)
    chunk = calls_of_chunks(seconds)
    tables = [_stages(job, chunk), _functions(job, "server")]
    if svg is not None:
        stacks = stacks_of_jobs(seconds)
        svg.write_text(flame_graph(stacks, "A text job over WebSocket, memory ledger: CPU time"))
        print(f"flame graph: {svg}")
    return tables


def _stages(job: Calls, chunk: Calls) -> Table:
    table = Table(title="Python calls in the server, by stage", title_justify="left")
    table.add_column("stage")
    table.add_column("text job", justify="right")
    table.add_column("20 ms chunk, jobs included", justify="right")
    chunks = by_stage(chunk.each.items())
    for stage, calls in by_stage(job.each.items()).items():
        table.add_row(stage, f"{calls:.1f}", f"{chunks[stage]:.1f}")
    table.add_section()
    table.add_row("all", f"{job.total:.1f}", f"{chunk.total:.1f}")
    table.add_row("of them coroutines", f"{job.coroutines:.1f}", f"{chunk.coroutines:.1f}")
    return table


def _callers(callers: Mapping[Role, CallerCalls]) -> Table:
    table = Table(title="A text job in a program that uses the SDK", title_justify="left")
    table.add_column("side")
    for name in ("Python calls", "of them coroutines", "CPU us"):
        table.add_column(name, justify="right")
    for role, found in callers.items():
        calls = found.calls
        table.add_row(role, f"{calls.total:.1f}", f"{calls.coroutines:.1f}", f"{found.cpu_us:.0f}")
    return table


def _functions(job: Calls, side: str) -> Table:
    title = f"Python calls of a text job in the {side}, by function"
    table = Table(title=title, title_justify="left")
    table.add_column("function")
    table.add_column("calls", justify="right")
    for name, calls in sorted(job.each.items(), key=lambda found: -found[1]):
        if calls >= _SHOWN:
            table.add_row(name.removeprefix("dragoman."), f"{calls:.2f}")
    modules = {name.rsplit(".", 2)[0] for name, calls in job.each.items() if calls >= _SHOWN}
    table.caption = f"{len(modules)} modules"
    return table
