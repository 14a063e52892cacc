"""One line that says how the demo is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from dragoman.cli.demo.traffic import DemoTraffic
from dragoman.live.protocol import NodeHealth
from dragoman.sdk import Node

_LINE_SECONDS = 5.0
_REFRESH_SECONDS = 0.5


async def show_status(nodes: Sequence[Node], traffic: DemoTraffic) -> None:
    """Keep one line up to date on a terminal; elsewhere write one every few seconds."""
    console = Console()
    if not console.is_terminal:
        while True:
            await asyncio.sleep(_LINE_SECONDS)
            typer.echo(status_line(nodes, traffic))
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(Text(status_line(nodes, traffic)), refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


def status_line(nodes: Sequence[Node], traffic: DemoTraffic) -> str:
    """The nodes and their jobs, the sessions, the results of utterances, and how long they took."""
    tally = traffic.tally
    ready = sum(node.status is NodeHealth.READY for node in nodes)
    running = sum(len(node.running) for node in nodes)
    missing = sum(tally.missing.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.missing.items()))
    parts = [
        f"nodes {ready}/{len(nodes)} ready",
        f"{running} jobs running",
        f"{traffic.sessions} sessions",
        f"{tally.delivered} utterances delivered",
        f"{tally.resumed} resumed",
        f"{missing} missing ({reasons})" if reasons else "0 missing",
    ]
    parts += [f"{count} sessions lost to {name}" for name, count in sorted(tally.failed.items())]
    if tally.times_ms:
        times = sorted(tally.times_ms)
        median, slow = times[len(times) // 2], times[len(times) * 95 // 100]
        parts.append(f"median {median:.0f} ms, 95 % within {slow:.0f} ms")
    return " · ".join(parts)
