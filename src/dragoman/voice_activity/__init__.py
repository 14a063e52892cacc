"""Where a speaker speaks and where they pause: what of a microphone's stream is kept, and cut.

Pure: samples go in, utterances come out. A detector says of each frame whether it holds a voice;
the cutter makes utterances of that.
"""

from dragoman.voice_activity.cutter import Cutter, SpeechRules, Spoken, SpokenEnd
from dragoman.voice_activity.detectors import (
    DETECTORS,
    MODULES,
    RATES,
    Detector,
    Judgement,
    SileroDetector,
    WebRtcDetector,
    open_detector,
)

__all__ = [
    "DETECTORS",
    "MODULES",
    "RATES",
    "Cutter",
    "Detector",
    "Judgement",
    "SileroDetector",
    "SpeechRules",
    "Spoken",
    "SpokenEnd",
    "WebRtcDetector",
    "open_detector",
]
