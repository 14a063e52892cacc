"""A job's whole life over WebSocket, beside a relay of the same frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.full_job.figures import Figures
from benchmarks.full_job.load import (
    AUDIO_3S_BYTES,
    NODES,
    SESSIONS,
    Address,
    FrameSizes,
    JobLoad,
    Outcome,
    drive,
)
from benchmarks.full_job.servers import dragoman_server, relay_server

HOLD_RATIO = 1.15
"""At most so many times the CPU of the relay, for text."""
HOLD_SPEECH_US = 110
"""At most so much for a job with 3 s of audio, where the relay takes what it took when that was
set down."""
RELAY_US = 48
"""What the relay took then, for text."""


@dataclass(frozen=True)
class Effort:
    """How long and how often each thing is measured."""

    rounds: int
    seconds: float
    warm_up_seconds: float


FULL = Effort(rounds=3, seconds=2.0, warm_up_seconds=0.8)
QUICK = Effort(rounds=1, seconds=1.0, warm_up_seconds=0.5)


@dataclass(frozen=True)
class Kind:
    """One kind of job, in one sub-protocol."""

    name: str
    binary: bool
    audio_bytes: int


KINDS = (
    Kind("text, MessagePack", binary=True, audio_bytes=0),
    Kind("text, JSON", binary=False, audio_bytes=0),
    Kind("3 s of audio, MessagePack", binary=True, audio_bytes=AUDIO_3S_BYTES),
    Kind("3 s of audio, JSON", binary=False, audio_bytes=AUDIO_3S_BYTES),
)


@dataclass(frozen=True)
class Beside:
    """Dragoman and the relay in the same minutes: medians over the rounds."""

    kind: Kind
    dragoman_us: float
    relay_us: float
    difference_us: float
    """The median of the rounds' differences: each compares neighbours in time."""
    dragoman_jobs_per_second: float
    relay_jobs_per_second: float


def compare(effort: Effort, say: Callable[[str], None]) -> list[Beside]:
    """Every kind of job, on one server of each sort, in turns."""
    with dragoman_server() as dragoman, relay_server() as relay:
        return [_compare(kind, dragoman, relay, effort, say) for kind in KINDS]


def _compare(
    kind: Kind, dragoman: Address, relay: Address, effort: Effort, say: Callable[[str], None]
) -> Beside:
    rounds: list[tuple[Outcome, Outcome]] = []
    for number in range(effort.rounds):
        here = drive(_load(kind, dragoman, effort))
        there = drive(_load(kind, relay, effort, here.sizes))
        rounds.append((here, there))
        say(
            f"{kind.name}, round {number + 1}: {here.cpu_us_per_job:.0f} us, "
            f"relay {there.cpu_us_per_job:.0f} us"
        )
    return Beside(
        kind,
        median(here.cpu_us_per_job for here, _ in rounds),
        median(there.cpu_us_per_job for _, there in rounds),
        median(here.cpu_us_per_job - there.cpu_us_per_job for here, there in rounds),
        median(here.jobs_per_second for here, _ in rounds),
        median(there.jobs_per_second for _, there in rounds),
    )


def _load(
    kind: Kind, server: Address, effort: Effort, relay_sizes: FrameSizes | None = None
) -> JobLoad:
    return JobLoad(
        server,
        kind.binary,
        kind.audio_bytes,
        effort.seconds,
        effort.warm_up_seconds,
        relay_sizes,
    )


def comparison_figures(found: list[Beside]) -> Figures:
    figures = Figures(
        f"Full job over WebSocket, memory ledger, {NODES} nodes, {SESSIONS} sessions: "
        "CPU microseconds a job",
        ("job", "Dragoman", "bare relay", "difference", "jobs/s", "relay jobs/s"),
    )
    for row in found:
        figures.rows.append(
            (
                row.kind.name,
                f"{row.dragoman_us:.0f}",
                f"{row.relay_us:.0f}",
                f"{row.difference_us:.0f}",
                f"{row.dragoman_jobs_per_second:,.0f}",
                f"{row.relay_jobs_per_second:,.0f}",
            )
        )
    for row in found:
        if not row.kind.binary:
            continue
        if row.kind.audio_bytes:
            most_us = HOLD_SPEECH_US * machine_factor(found)
            figures.notes.append(
                f"To hold for {row.kind.name}: at most {most_us:.0f} us, which is "
                f"{HOLD_SPEECH_US} us where the relay takes {RELAY_US} us for text. "
                f"{verdict(row.dragoman_us <= most_us)} ({row.dragoman_us:.0f} us)."
            )
        else:
            ratio = row.dragoman_us / row.relay_us
            figures.notes.append(
                f"To hold for {row.kind.name}: at most {HOLD_RATIO} x the relay. "
                f"{verdict(ratio <= HOLD_RATIO)} ({ratio:.2f} x)."
            )
    return figures


def machine_factor(found: list[Beside]) -> float:
    """How much slower this machine is than the one that limits in microseconds are for."""
    return min(row.relay_us for row in found if not row.kind.audio_bytes) / RELAY_US


def verdict(held: bool) -> str:
    return "Held here" if held else "Not held here"
