"""Frames of a given size that say nothing but where they go.

A frame begins with SSSS K BBBBBBB, without the blanks: the session, the kind, and how many bytes
the relay adds when it passes the frame on. The rest is filling.
"""

from __future__ import annotations

from benchmarks.full_job.frames import Told
from benchmarks.full_job.load import FrameSizes

UTTERANCE, ACK, STARTED, RESULT = "u", "a", "s", "r"
SESSION = slice(0, 4)
KIND = slice(4, 5)
ADDED = slice(5, 12)


class RelayFrames:
    """As many frames as a real job has, of the same sizes."""

    sub: str | None = None

    def __init__(self, *, binary: bool, sizes: FrameSizes) -> None:
        self.binary = binary
        added = {
            UTTERANCE: max(0, sizes.job_assign - sizes.utterance),
            RESULT: max(0, sizes.translation_result - sizes.job_result),
        }
        self._rest = {
            kind: f"{kind}{added.get(kind, 0):07d}".encode() + b"." * (size_bytes - ADDED.stop)
            for kind, size_bytes in (
                (UTTERANCE, sizes.utterance),
                (ACK, sizes.job_ack),
                (STARTED, sizes.job_started),
                (RESULT, sizes.job_result),
            )
        }

    def read(self, payload: bytes) -> Told:
        kind = "job_assign" if payload[KIND] == UTTERANCE.encode() else "translation_result"
        return Told(kind, job_id=payload[SESSION].decode())

    def utterance(self, session: int, index: int) -> bytes:
        return f"{session:04d}".encode() + self._rest[UTTERANCE]

    def job_ack(self, job: Told) -> bytes:
        return job.job_id.encode() + self._rest[ACK]

    def job_started(self, job: Told) -> bytes:
        return job.job_id.encode() + self._rest[STARTED]

    def job_result(self, job: Told) -> bytes:
        return job.job_id.encode() + self._rest[RESULT]
