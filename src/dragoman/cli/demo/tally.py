"""Counts of what the traffic led to."""

from __future__ import annotations

from collections import Counter, deque

from dragoman.live.protocol import TranslationResult
from dragoman.sdk import Result, SessionEvent, SessionOpened

_KEPT_TIMES = 500


class DemoTally:
    """Counts what the speakers of a demo hear; an utterance counts once for each target."""

    def __init__(self) -> None:
        self.delivered = 0
        self.missing: Counter[str] = Counter()
        """Utterances that have no result, by reason."""
        self.resumed = 0
        """How often a session went on after its socket was dropped."""
        self.failed: Counter[str] = Counter()
        """Sessions that ended before they were closed, by error."""
        self.times_ms: deque[float] = deque(maxlen=_KEPT_TIMES)
        """How long the latest utterances took, from the cut to the result."""

    def heard(self, result: Result) -> None:
        if isinstance(result, TranslationResult):
            self.delivered += 1
            self.times_ms.append(result.scheduling.total_ms)
        else:
            self.missing[result.reason] += 1

    def happened(self, event: SessionEvent) -> None:
        if isinstance(event, SessionOpened) and event.resumed:
            self.resumed += 1
