"""The deliveries of the last sessions, for those who look at where an utterance's time went."""

from __future__ import annotations

from collections import deque

import msgspec

from dragoman.ids import JobId, NodeId, SessionId, TenantId
from dragoman.live.protocol import Scheduling, Timings


class RecentDelivery(msgspec.Struct, eq=False, gc=False):
    """What became of an utterance for one target; never what was said."""

    session_id: SessionId
    tenant: TenantId
    delivery_seq: int
    utterance_index: int
    tgt_lang: str | None
    job_id: JobId | None
    node_id: NodeId | None
    reason: str | None
    """Why there is no result; None: there is one."""
    ended_ms: int
    scheduling: Scheduling | None
    timings: Timings | None


class RecentDeliveries:
    """A ring of deliveries. Adding one costs no call, reading a session's is a pass over all."""

    def __init__(self, most: int) -> None:
        """most: how many are remembered, of all sessions; the oldest make room."""
        self._kept: deque[RecentDelivery] = deque(maxlen=most)
        self.add = self._kept.append

    def of_session(self, session_id: SessionId) -> list[RecentDelivery]:
        """What is remembered of a session, in the order of delivery."""
        return [kept for kept in self._kept if kept.session_id == session_id]
