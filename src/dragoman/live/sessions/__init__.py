"""A conversation: speech is cut, asked for by target, and its results come back in order."""

from dragoman.live.sessions.languages import LanguageUsage
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.segments import SegmentRules
from dragoman.live.sessions.session import Session, SessionContext
from dragoman.live.sessions.sessions import Sessions

__all__ = [
    "LanguageUsage",
    "SegmentRules",
    "Session",
    "SessionContext",
    "SessionRules",
    "Sessions",
]
