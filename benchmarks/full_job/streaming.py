"""How many people can talk at once through one core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.full_job.comparison import RELAY_US, Effort, verdict
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.load import Outcome, SpeechLoad, drive
from benchmarks.full_job.servers import dragoman_server
from benchmarks.full_job.speakers import UTTERANCE_MS

SPEAKERS = 120
CHUNKS_MS = (20, 100)
HOLD_CHUNK_US = {20: 17, 100: 42}
"""At most so much for a chunk of so many milliseconds, where the relay takes RELAY_US."""
CROWD = 500
CROWD_CHUNK_MS = 20
HOLD_WAIT_MS = 5.0
HOLD_PACE = 0.99


@dataclass(frozen=True)
class Speech:
    """What speakers with chunks of one length use."""

    chunk_ms: int
    binary: bool
    chunk_us: float
    """CPU for a chunk, with its share of a job."""
    pace: float
    """How many of the utterances that should have been answered were."""

    @property
    def speakers_per_core(self) -> float:
        return self.chunk_ms * 1000 / self.chunk_us


def measure_speech(effort: Effort, say: Callable[[str], None]) -> list[Speech]:
    """Both chunk lengths in both sub-protocols."""
    found = []
    with dragoman_server() as server:
        for chunk_ms in CHUNKS_MS:
            for binary in (True, False):
                load = SpeechLoad(
                    server, binary, SPEAKERS, chunk_ms, effort.seconds, effort.warm_up_seconds
                )
                outcomes: list[Outcome] = [drive(load) for _ in range(effort.rounds)]
                speech = Speech(
                    chunk_ms,
                    binary,
                    median(outcome.cpu_seconds * 1e6 / outcome.chunks for outcome in outcomes),
                    median(_pace(outcome) for outcome in outcomes),
                )
                found.append(speech)
                say(f"chunks of {chunk_ms} ms: {speech.chunk_us:.0f} us each")
    return found


@dataclass(frozen=True)
class Crowd:
    """What many speakers at once notice."""

    core_share: float
    """Of one core, that the server takes."""
    pace: float
    p50_ms: float
    """From the last chunk of an utterance to its job_assign."""
    p99_ms: float


def measure_crowd(effort: Effort, say: Callable[[str], None]) -> Crowd:
    """All of them talk through one server."""
    seconds = effort.seconds * effort.rounds
    with dragoman_server() as server:
        load = SpeechLoad(server, True, CROWD, CROWD_CHUNK_MS, seconds, UTTERANCE_MS / 1000)
        outcome = drive(load)
    waits_ms = sorted(outcome.waits_ms) or [0.0]
    crowd = Crowd(
        outcome.cpu_seconds / outcome.seconds,
        outcome.chunks * CROWD_CHUNK_MS / 1000 / (CROWD * outcome.seconds),
        waits_ms[len(waits_ms) // 2],
        waits_ms[int(len(waits_ms) * 0.99)],
    )
    say(f"{CROWD} speakers: {crowd.core_share:.0%} of a core, p99 {crowd.p99_ms:.1f} ms")
    return crowd


def crowd_figures(crowd: Crowd) -> Figures:
    figures = Figures(
        f"{CROWD} speakers at once, chunks of {CROWD_CHUNK_MS} ms, MessagePack: "
        "from the last chunk to job_assign",
        ("", "server, of a core", "pace kept", "p50", "p99"),
    )
    figures.rows.append(
        (
            f"{CROWD} speakers",
            f"{crowd.core_share:.0%}",
            f"{crowd.pace:.0%}",
            f"{crowd.p50_ms:.1f} ms",
            f"{crowd.p99_ms:.1f} ms",
        )
    )
    held = crowd.p99_ms < HOLD_WAIT_MS and crowd.pace >= HOLD_PACE
    figures.notes.append(
        f"To hold: the pace kept, and a p99 under {HOLD_WAIT_MS:g} ms. "
        f"{verdict(held)}. The driver's own delays are part of it."
    )
    return figures


def _pace(outcome: Outcome) -> float:
    return outcome.jobs / (SPEAKERS * outcome.seconds * 1000 / UTTERANCE_MS)


def speech_figures(found: list[Speech], relay_us: float) -> Figures:
    """relay_us is what the bare relay takes for a text job on this machine."""
    figures = Figures(
        "Speakers at the pace of speech, PCM16 in audio_chunk, "
        f"one job every {UTTERANCE_MS // 1000} s each",
        ("chunks", "CPU us a chunk, jobs included", "a core carries", "pace kept"),
    )
    for row in found:
        figures.rows.append(
            (
                f"{row.chunk_ms} ms, {'MessagePack' if row.binary else 'JSON'}",
                f"{row.chunk_us:.0f}",
                f"{row.speakers_per_core:,.0f} speakers",
                f"{row.pace:.0%}",
            )
        )
    for row in found:
        if row.binary:
            most_us = HOLD_CHUNK_US[row.chunk_ms] * relay_us / RELAY_US
            figures.notes.append(
                f"To hold for {row.chunk_ms} ms: at most {most_us:.0f} us, which is "
                f"{HOLD_CHUNK_US[row.chunk_ms]} us where the relay takes {RELAY_US} us. "
                f"{verdict(row.chunk_us <= most_us)} ({row.chunk_us:.0f} us)."
            )
    figures.notes.append(
        f"Measured with {SPEAKERS} speakers; what a core carries is reckoned from that. With a "
        "pace well below 100 % the server or the driver was held up, and the row means little."
    )
    return figures
