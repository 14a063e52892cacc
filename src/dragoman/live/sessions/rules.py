"""The limits and times of sessions; from the settings."""

from __future__ import annotations

import msgspec

from dragoman.live.protocol import Cut
from dragoman.live.sessions.past import PastRules
from dragoman.live.sessions.segmenter import SegmentRules
from dragoman.live.sessions.voice import VoiceRules


class SessionRules(msgspec.Struct, frozen=True):
    """What one session may use, and how long it waits for what."""

    segments: SegmentRules
    voice: VoiceRules
    padding_auto_ms: int
    padding_manual_ms: int
    heartbeat_interval_seconds: float
    heartbeat_timeout_seconds: float
    reorder_window: int
    gap_grace_seconds: float
    resume_grace_seconds: float
    max_inflight: int
    queue_messages: int
    queue_bytes: int
    max_sessions: int
    first_message_seconds: float
    """How long a socket may be there without a session."""
    sessions_per_tenant: int
    """0: as many as the server has room for."""
    semantic: bool
    """The pool rule asks for semantic repair."""
    listeners: int = 0
    """Maximum listeners of one session; 0: as many as come."""
    past: PastRules = PastRules(0, 0, frozenset())
    """What nodes are told of earlier utterances."""

    def padding_ms(self, cut: Cut) -> int:
        """Silence a node adds after the audio: more after a cut a person made."""
        if cut is Cut.NONE:
            return 0
        return self.padding_manual_ms if cut is Cut.FINAL else self.padding_auto_ms
