"""How many people can talk at once through one core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.full_job.comparison import Effort
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.load import Outcome, SpeechLoad, drive
from benchmarks.full_job.servers import dragoman_server
from benchmarks.full_job.speakers import UTTERANCE_MS

SPEAKERS = 120
CHUNKS_MS = (20, 100)


@dataclass(frozen=True)
class Speech:
    """What speakers with chunks of one length use."""

    chunk_ms: int
    binary: bool
    core_share: float
    """Of one core, for all the speakers measured."""

    @property
    def chunk_us(self) -> float:
        return self.core_share * self.chunk_ms * 1000 / SPEAKERS

    @property
    def speakers_per_core(self) -> float:
        return SPEAKERS / self.core_share


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
                share = median(outcome.cpu_seconds / outcome.seconds for outcome in outcomes)
                found.append(Speech(chunk_ms, binary, share))
                say(f"{SPEAKERS} speakers, chunks of {chunk_ms} ms: {share:.0%} of a core")
    return found


def speech_figures(found: list[Speech]) -> Figures:
    figures = Figures(
        "Speakers at the pace of speech, PCM16 in audio_chunk, "
        f"one job every {UTTERANCE_MS // 1000} s each",
        ("chunks", f"{SPEAKERS} speakers take", "CPU us a chunk, jobs included", "a core carries"),
    )
    for row in found:
        figures.rows.append(
            (
                f"{row.chunk_ms} ms, {'MessagePack' if row.binary else 'JSON'}",
                f"{row.core_share:.0%} of a core",
                f"{row.chunk_us:.0f}",
                f"{row.speakers_per_core:,.0f} speakers",
            )
        )
    figures.notes.append(
        f"Measured with {SPEAKERS} speakers; what a core carries is reckoned from that."
    )
    return figures
