"""The session domain: segmentation, jobs for each target, results in order, resume."""

from dragoman.live.sessions.languages import LanguageUsage
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.record import (
    Delivered,
    MemoryRecords,
    OpenJob,
    SessionOwner,
    SessionRecord,
    SessionRecords,
)
from dragoman.live.sessions.rules import Budget, SessionRules
from dragoman.live.sessions.segments import SegmentRules
from dragoman.live.sessions.session import Session
from dragoman.live.sessions.sessions import Sessions
from dragoman.live.sessions.tools import Tools

__all__ = [
    "Budget",
    "ClientLink",
    "Delivered",
    "LanguageUsage",
    "MemoryRecords",
    "OpenJob",
    "SegmentRules",
    "Session",
    "SessionOwner",
    "SessionRecord",
    "SessionRecords",
    "SessionRules",
    "Sessions",
    "Tools",
]
