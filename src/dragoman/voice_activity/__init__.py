"""Where a speaker speaks and where they pause: what of a microphone's stream is kept, and cut.

Pure: samples go in, decisions come out. A detector says of each frame whether it holds a voice; the
cutter makes utterances of that.
"""

from dragoman.voice_activity.cutter import Cut, Cutter, Heard, Kept, Pace
from dragoman.voice_activity.detectors import (
    DETECTORS,
    Detector,
    SileroDetector,
    WebRtcDetector,
    open_detector,
)

__all__ = [
    "DETECTORS",
    "Cut",
    "Cutter",
    "Detector",
    "Heard",
    "Kept",
    "Pace",
    "SileroDetector",
    "WebRtcDetector",
    "open_detector",
]
