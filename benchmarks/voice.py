"""What voice activity adds to a chunk of speech."""

from __future__ import annotations

from rich.table import Table

from benchmarks.full_job.comparison import verdict
from benchmarks.full_job.load import SpeechLoad, drive
from benchmarks.full_job.servers import dragoman_server

SPEAKERS = 60
CHUNKS_MS = (20, 40, 100)
_PROMISED = 1.2


def run(quick: bool) -> list[Table]:
    """CPU of the server for a chunk, the jobs of its utterances included, with and without.

    Both hear the same stream: without voice activity the client ends each utterance itself. They
    take turns, and the lowest of several rounds counts: what else the machine does only adds.
    """
    seconds, rounds = (1.0, 1) if quick else (5.0, 7)
    table = Table(
        "chunks",
        "without, us",
        "vad = webrtc, us",
        "times",
        "a second of speech, without",
        "vad = webrtc",
        title="Voice activity: the server's CPU for a chunk, and for a second of speech",
    )
    not_held: list[str] = []
    with dragoman_server() as server:
        for chunk_ms in CHUNKS_MS:
            for binary in (True, False):
                found: dict[str, list[float]] = {"off": [], "webrtc": []}
                for _ in range(rounds):
                    for vad, costs in found.items():
                        load = SpeechLoad(server, binary, SPEAKERS, chunk_ms, seconds, 1.0, vad)
                        outcome = drive(load)
                        costs.append(outcome.cpu_seconds * 1e6 / outcome.chunks)
                without, with_it = min(found["off"]), min(found["webrtc"])
                chunks = f"{chunk_ms} ms, {'MessagePack' if binary else 'JSON'}"
                if with_it / without > _PROMISED:
                    not_held.append(chunks)
                table.add_row(
                    chunks,
                    f"{without:.1f}",
                    f"{with_it:.1f}",
                    f"{with_it / without:.2f}",
                    f"{without * 1000 / chunk_ms:,.0f} us",
                    f"{with_it * 1000 / chunk_ms:,.0f} us",
                )
    table.caption = (
        f"To hold: at most {_PROMISED} times, in every row. {verdict(not not_held)}"
        f"{': over it are ' + '; '.join(not_held) if not_held else ''}. The detector listens to "
        "all of the audio, about 3 us for each 30 ms: longer chunks save the way of a frame, and "
        "nothing of that, so that its share grows while a second of speech costs less."
    )
    table.caption_justify = "left"
    return [table]
