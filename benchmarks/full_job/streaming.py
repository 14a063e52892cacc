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


def _pace(outcome: Outcome) -> float:
    return outcome.jobs / (SPEAKERS * outcome.seconds * 1000 / UTTERANCE_MS)


def speech_figures(found: list[Speech]) -> Figures:
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
    figures.notes.append(
        f"Measured with {SPEAKERS} speakers; what a core carries is reckoned from that. With a "
        "pace well below 100 % the server or the driver was held up, and the row means little."
    )
    return figures
