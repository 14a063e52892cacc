"""From audio to utterances: cutting, formats, and what is asked for with each utterance."""

from dragoman.live.sessions.audio import WholeSamples, make_meter
from dragoman.live.sessions.languages import LanguageUsage
from dragoman.live.sessions.orders import Speech, job_spec, targets_for, targets_of
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.pressure import Pressure
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.segmenter import CHUNK_OVERHEAD_BYTES, Segment, Segmenter
from dragoman.live.sessions.segments import SegmentRules
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.timeline import PROGRESS, Timeline

__all__ = [
    "CHUNK_OVERHEAD_BYTES",
    "PROGRESS",
    "ClientLink",
    "LanguageUsage",
    "Pressure",
    "Segment",
    "SegmentRules",
    "Segmenter",
    "SessionRules",
    "Spans",
    "Speech",
    "Timeline",
    "WholeSamples",
    "job_spec",
    "make_meter",
    "targets_for",
    "targets_of",
]
