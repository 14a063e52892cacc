"""The same experiment here and with other tools; and here with more and more items."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.full_job.figures import Figures
from benchmarks.full_job.peers.environments import ROOT, NotInstalled
from benchmarks.lab.measuring import CONCURRENCY, Measured, told
from benchmarks.lab.peers.tools import TOOLS

HOLD_ITEMS_PER_SECOND = 2_500
HOLD_FACTOR = 10

Say = Callable[[str], None]


def measure_here(items: int) -> Measured:
    """The experiment in a process of its own, so that its memory is its own too."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lab.with_dragoman", str(items)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    return told(done.stdout)


def measure_growth(sizes: Sequence[int], say: Say) -> list[Measured]:
    """The experiment with more and more items; what each showed is said at once."""
    found = []
    for size in sizes:
        one = measure_here(size)
        say(
            f"{size:,} items: {one.items_per_second:,.0f} items/s, {one.peak_megabytes:,.0f} MB, "
            f"a scan {one.details['scan_first_us']:,.0f} us at first and "
            f"{one.details['scan_last_us']:,.0f} us at last"
        )
        found.append(one)
    return found


def measure_tools(items: int, say: Say) -> dict[str, Measured]:
    """The experiment with every tool that can be installed here."""
    found: dict[str, Measured] = {}
    for name, run in TOOLS.items():
        try:
            found[name] = run(items)
        except NotInstalled as why:
            say(f"{name} is left out: {why}")
        except subprocess.TimeoutExpired:
            say(f"{name} is left out: {items:,} items took too long")
        except subprocess.CalledProcessError as error:
            last = (str(error.stderr).strip().splitlines() or ["it failed"])[-1]
            say(f"{name} is left out: {last}")
        else:
            say(f"{name}: {found[name].items_per_second:,.0f} items/s")
    return found


def comparison_figures(here: Measured, tools: Mapping[str, Measured]) -> Figures:
    figures = Figures(
        f"{here.items:,} items, target without latency, one exact evaluator, {CONCURRENCY} at once",
        ("", "items/s", "CPU us an item", "peak memory", "factor"),
    )
    for name, one in {"Dragoman, SQLite": here, **tools}.items():
        figures.rows.append(
            (
                name,
                f"{one.items_per_second:,.0f}",
                f"{one.cpu_us_per_item:,.0f}",
                f"{one.peak_megabytes:,.0f} MB",
                f"{here.items_per_second / one.items_per_second:.1f}",
            )
        )
    rate = here.items_per_second
    figures.notes.append(
        f"To hold: at least {HOLD_ITEMS_PER_SECOND:,} items/s. "
        f"{_verdict(rate >= HOLD_ITEMS_PER_SECOND)} here ({rate:,.0f})."
    )
    if tools:
        best = max(tools, key=lambda name: tools[name].items_per_second)
        factor = rate / tools[best].items_per_second
        figures.notes.append(
            f"To hold: {HOLD_FACTOR} x the best other tool. "
            f"{_verdict(factor >= HOLD_FACTOR)} here ({best}, {factor:.1f} x)."
        )
    p50_ms, p99_ms = here.details["refill_p50_ms"], here.details["refill_p99_ms"]
    figures.notes.append(
        f"An empty place was filled again after {p50_ms:.1f} ms (p50), {p99_ms:.1f} ms (p99)."
    )
    return figures


def growth_figures(found: Sequence[Measured]) -> Figures:
    figures = Figures(
        "More and more items: memory, and CPU microseconds of a step, first and last tenth",
        ("items", "items/s", "peak memory", "scan", "", "archive", "", "refill p99"),
    )
    for one in found:
        details = one.details
        figures.rows.append(
            (
                f"{one.items:,}",
                f"{one.items_per_second:,.0f}",
                f"{one.peak_megabytes:,.0f} MB",
                f"{details['scan_first_us']:,.0f}",
                f"{details['scan_last_us']:,.0f}",
                f"{details['step_first_us']:,.0f}",
                f"{details['step_last_us']:,.0f}",
                f"{details['refill_p99_ms']:.1f} ms",
            )
        )
    figures.notes.append(
        "A scan looks for items to hand out; archiving moves what is done to the tables that users "
        "see. To hold: memory and a scan's cost are flat."
    )
    return figures


def _verdict(held: bool) -> str:
    return "Held" if held else "Not held"
