"""Soak servers: python -m tests.soak [--seconds 3600] [--seed N] [--backend both] [--json FILE]"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory

from tests.soak.run import Report, Soak
from tests.soak.server import Kind
from tests.soak.verdict import MOST_GROWTH

BACKENDS: dict[str, tuple[Kind, ...]] = {
    **{kind.value: (kind,) for kind in Kind},
    "both": (Kind.MEMORY, Kind.REDIS),
    "all": tuple(Kind),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Load real servers for a time and say whether anything grows. "
        "Exit code 1 when something does, or when a law was broken.",
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long (%(default)s)")
    parser.add_argument("--seed", type=int, help="what the load does; drawn unless given")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="both",
        help="a server with its ledger in memory, one on a Redis that is started for it, or a "
        "cluster of three with faults; both: the first two side by side; all: all three "
        "(%(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    parser.add_argument(
        "--folder", type=Path, help="keep the servers' files and logs there; temporary unless given"
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else SystemRandom().randrange(1_000_000)
    # Ended either way, it stops the servers that it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"soak: seed {seed}, {options.seconds:.0f} s, {options.backend}", flush=True)
    if options.folder is not None:
        reports = asyncio.run(soak_all(options.folder, seed, options.seconds, options.backend))
    else:
        with TemporaryDirectory(prefix="dragoman-soak-") as folder:
            reports = asyncio.run(soak_all(Path(folder), seed, options.seconds, options.backend))
    if options.json is not None:
        options.json.write_text(json.dumps([report.as_json() for report in reports], indent=1))
    for report in reports:
        show(report)
    return 1 if any(report.failures for report in reports) else 0


async def soak_all(folder: Path, seed: int, seconds: float, backend: str) -> list[Report]:
    """A soak of each kind of ledger that was asked for, all at once."""

    async def soak(kind: Kind) -> Report:
        tell = lambda line: print(line, flush=True)  # noqa: E731
        async with Soak(kind, folder / kind, seed, tell) as one:
            return await one.run(seconds)

    return list(await asyncio.gather(*map(soak, BACKENDS[backend])))


def show(report: Report) -> None:
    print(f"\n=== {report.name}: {report.seconds:.0f} s, seed {report.seed} ===")
    print(f"kept for a stated time or number, and gone at rest: {report.kept}")
    print(
        f"CPU: {report.cpu_share:.0%} of a core for the servers and their lab, "
        f"{report.load_cpu_share:.0%} for the load"
    )
    print("\nwhat there was:")
    for name, count in report.counts.items():
        print(f"  {name:48} {count:>9,}")
    if report.trends:
        print(
            f"\nat rest, slope of the last half carried on to 24 hours "
            f"(at most {MOST_GROWTH:.0%} of the level):"
        )
        print(f"  {'':34} {'level':>10} {'in 24 h':>10} {'share':>8}   95 % interval")
        for trend in report.trends:
            print(
                f"  {trend.name:34} {trend.level:>10,.0f} {trend.per_day:>+10,.0f} "
                f"{trend.share:>+8.1%}   {trend.per_day_low:+,.0f} to {trend.per_day_high:+,.0f}"
                + ("" if trend.is_flat else "   GROWS")
            )
    else:
        print("\ntoo short for slopes: only the laws and the return to the base are judged")
    print("\nverdict: " + ("passed" if not report.failures else "FAILED"))
    for failure in report.failures:
        print(f"  {failure}")


if __name__ == "__main__":
    sys.exit(main())
