"""An utterance's span: begun when it is first heard, over when its last result was sent."""

from __future__ import annotations

from typing import Protocol

from opentelemetry.trace import SpanContext

from dragoman.clock import Clock
from dragoman.ids import SessionId
from dragoman.live.protocol import Cut, SessionInit
from dragoman.live.sessions.orders import trace_id_of
from dragoman.observability import Trace, Tracing


class SpannedUtterance(Protocol):
    """What of an utterance its span tells."""

    @property
    def index(self) -> int: ...
    @property
    def cut(self) -> Cut: ...
    @property
    def targets(self) -> tuple[str, ...]: ...


class Spans:
    """The spans of a session's utterances, while tracing is on."""

    def __init__(
        self, session_id: SessionId, init: SessionInit, tracing: Tracing, clock: Clock
    ) -> None:
        self._session_id = session_id
        self._init = init
        self._tracing = tracing
        self._clock = clock
        self._heard_at: dict[int, float] = {}
        self._open: dict[int, tuple[Trace, set[str]]] = {}
        """Utterances under way, and the targets that have not been told how they ended."""
        self._failed: dict[int, str] = {}
        """Why those of them that have no result for a target have none."""

    def heard(self, index: int) -> None:
        """Audio of an utterance came."""
        if index not in self._heard_at:
            self._heard_at[index] = self._clock.monotonic()

    def begin(self, speech: SpannedUtterance) -> None:
        """An utterance is complete."""
        heard_at = self._heard_at.pop(speech.index, None)
        trace = self._tracing.begin(
            "utterance",
            trace_id_of(self._session_id, self._init, speech.index),
            began=heard_at,
            attributes={
                "dragoman.session_id": self._session_id,
                "dragoman.utterance_index": speech.index,
            },
        )
        trace.event("received", at=heard_at)
        if speech.cut is not Cut.NONE:
            trace.event("cut", reason=speech.cut.value)
        self._open[speech.index] = (trace, set(speech.targets))

    def context(self, index: int) -> SpanContext | None:
        """What the utterance's jobs are a part of."""
        found = self._open.get(index)
        return found[0].context if found is not None else None

    def delivered(self, index: int, target: str, reason: str | None) -> None:
        """The client was sent a result, or the reason for none; after the last, it is over."""
        found = self._open.get(index)
        if found is None:
            return
        trace, targets = found
        targets.discard(target)
        if reason is None:
            trace.event("delivered", target=target)
        else:
            trace.event("missing", target=target, reason=reason)
            self._failed.setdefault(index, reason)
        if not targets:
            del self._open[index]
            trace.end(self._failed.pop(index, None))

    def close(self) -> None:
        """The session is over, whatever was under way."""
        for trace, _ in self._open.values():
            trace.end("SESSION_CLOSED")
        self._open.clear()
        self._failed.clear()
