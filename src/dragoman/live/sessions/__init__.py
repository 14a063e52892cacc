"""The session domain: segmentation, jobs for each target, results in order, resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.extras import require_extra
from dragoman.live.sessions.languages import LanguageUsage
from dragoman.live.sessions.memory_records import MemoryRecords
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.record import (
    ChangedHands,
    Delivered,
    Holding,
    OpenJob,
    SessionOwner,
    SessionRecord,
    SessionRecords,
    Taken,
)
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.segments import SegmentRules
from dragoman.live.sessions.session import Session
from dragoman.live.sessions.sessions import Sessions
from dragoman.live.sessions.tools import Tools

if TYPE_CHECKING:
    from dragoman.live.sessions.redis_records import RedisRecords

from dragoman.live.sessions.audio import WholeSamples, make_meter
from dragoman.live.sessions.delivery import GAP_TIMEOUT
from dragoman.live.sessions.orders import Speech, job_spec, targets_for, targets_of
from dragoman.live.sessions.pressure import Pressure
from dragoman.live.sessions.segmenter import CHUNK_OVERHEAD_BYTES, Segment, Segmenter
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.timeline import PROGRESS, Timeline
from dragoman.live.sessions.unacknowledged import DROPPED, MARKS_PER_MESSAGE

__all__ = [
    "CHUNK_OVERHEAD_BYTES",
    "DROPPED",
    "GAP_TIMEOUT",
    "MARKS_PER_MESSAGE",
    "PROGRESS",
    "ChangedHands",
    "ClientLink",
    "Delivered",
    "Holding",
    "LanguageUsage",
    "MemoryRecords",
    "OpenJob",
    "Pressure",
    "RedisRecords",
    "Segment",
    "SegmentRules",
    "Segmenter",
    "Session",
    "SessionOwner",
    "SessionRecord",
    "SessionRecords",
    "SessionRules",
    "Sessions",
    "Spans",
    "Speech",
    "Taken",
    "Timeline",
    "Tools",
    "WholeSamples",
    "job_spec",
    "make_meter",
    "targets_for",
    "targets_of",
]


def __getattr__(name: str) -> Any:
    if name == "RedisRecords":
        require_extra("cluster", "Keeping session records on Redis")
        from dragoman.live.sessions.redis_records import RedisRecords

        return RedisRecords
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
