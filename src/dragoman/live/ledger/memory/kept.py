"""What the ledger keeps in this process's memory after jobs have ended, counted in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from dragoman.ids import JobId
from dragoman.live.protocol import JobResult

_ENVELOPE_BYTES = 512
"""What a result weighs beside its texts and audio."""


def weight_of(output: JobResult | None) -> int:
    """About how many bytes a result takes."""
    if output is None:
        return 0
    texts = (output.text_asr or "", output.text_translated or "")
    return _ENVELOPE_BYTES + len(output.tts_audio or b"") + sum(map(len, texts))


class KeptResults:
    """Results by their jobs, in the order they came.

    Those that were delivered, and cannot be asked for, may go early; the others after their lease.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self._sizes: OrderedDict[JobId, int] = OrderedDict()
        self._delivered: OrderedDict[JobId, None] = OrderedDict()

    def keep(self, job_id: JobId, output: JobResult | None, *, delivered: bool = False) -> None:
        """Count a result; once, however often it is told."""
        if output is None:
            return
        if job_id not in self._sizes:
            self._sizes[job_id] = weight_of(output)
            self.size_bytes += self._sizes[job_id]
        if delivered:
            self._delivered[job_id] = None

    def drop(self, job_id: JobId) -> None:
        """The result is gone."""
        self.size_bytes -= self._sizes.pop(job_id, 0)
        self._delivered.pop(job_id, None)

    def is_delivered(self, job_id: JobId) -> bool:
        return job_id in self._delivered

    def early_first(self) -> Iterator[JobId]:
        """Jobs in the order their results may go, as long as each is dropped.

        Those that were delivered come before the others, and the oldest first.
        """
        while self._delivered:
            yield next(iter(self._delivered))
        while self._sizes:
            yield next(iter(self._sizes))
