"""A conversation: speech is cut, asked for by target, and its results come back in order."""

from dragoman.live.sessions.audience import Form, is_listen_token
from dragoman.live.sessions.past import PastRules
from dragoman.live.sessions.recent import RecentDeliveries, RecentDelivery
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.segmenter import SegmentRules
from dragoman.live.sessions.session import Session, SessionContext
from dragoman.live.sessions.sessions import LanguageUsage, Sessions
from dragoman.live.sessions.voice import VoiceRules

__all__ = [
    "Form",
    "LanguageUsage",
    "PastRules",
    "RecentDeliveries",
    "RecentDelivery",
    "SegmentRules",
    "Session",
    "SessionContext",
    "SessionRules",
    "Sessions",
    "VoiceRules",
    "is_listen_token",
]
