"""Utterances from a stream that never stops: speech is kept, silence is not, pauses cut."""

from __future__ import annotations

from collections import deque
from enum import StrEnum

import msgspec

from dragoman.audio import SAMPLE_BYTES
from dragoman.errors import SettingsError
from dragoman.voice_activity.detectors import Detector


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as speech, and what as a pause."""

    pause_ms: int = 500
    """This much without a voice ends an utterance."""
    min_speech_ms: int = 120
    """This much voice begins one; less is a click or a cough."""
    pre_roll_ms: int = 200
    """What is kept from before the voice: the first sound of a word is often not heard as one."""
    tail_ms: int = 200
    """What is kept from after it."""


class Kept(msgspec.Struct, frozen=True):
    """Samples of an utterance."""

    samples: bytes
    at_sample: int
    """Where in the stream they begin."""


class Cut(msgspec.Struct, frozen=True):
    """An utterance is complete: all that was kept since the last cut."""

    at_sample: int
    """Where in the stream it ends."""
    speech_end_sample: int
    """Where its last voice ended."""


Heard = Kept | Cut
"""What `feed` finds, in the order of the stream."""


class _State(StrEnum):
    QUIET = "quiet"
    SPEAKING = "speaking"


_STARTS_WITHIN = 2.0
"""The voice that begins an utterance may be spread over so many times `min_speech_ms`."""
_NOISE_IN_A_PAUSE = 0.1
"""The share of a pause that a detector may take for a voice: noise is heard as one now and then."""


class Cutter:
    """Takes a speaker's stream apart. It holds at most a pause and a pre-roll of samples.

    | state | what it waits for | and then |
    | --- | --- | --- |
    | quiet | min_speech_ms of voice, close together | keeps the pre-roll and the voice: speaking |
    | speaking | pause_ms with next to no voice | keeps the tail, cuts: quiet |
    """

    def __init__(self, detector: Detector, sample_rate: int, pace: Pace | None = None) -> None:
        pace = pace or Pace()
        self._detector = detector
        self._frame_bytes = detector.frame_bytes
        frame_ms = 1000 * self._frame_bytes / SAMPLE_BYTES / sample_rate
        if pace.pause_ms < frame_ms or min(pace.pre_roll_ms, pace.tail_ms) < 0:
            raise SettingsError(
                f"a pause of {pace.pause_ms} ms is shorter than the {frame_ms:.0f} ms that voice "
                "activity looks at; give a longer one"
            )

        def frames(ms: float) -> int:
            return max(1, round(ms / frame_ms))

        self._start_voiced = frames(pace.min_speech_ms)
        self._start_window = max(self._start_voiced, frames(pace.min_speech_ms * _STARTS_WITHIN))
        self._pause_window = frames(pace.pause_ms)
        self._pause_voiced = int(self._pause_window * _NOISE_IN_A_PAUSE)
        self._pre_roll = round(pace.pre_roll_ms / frame_ms)
        self._tail = round(pace.tail_ms / frame_ms)
        self._state = _State.QUIET
        self._rest = b""
        self._next_frame = 0
        """The number of the frame that comes next, counted over the whole stream."""
        self._skipped_samples = 0
        """Samples that made no whole frame, where the stream was finished before it went on."""
        self._frames: deque[bytes] = deque()
        """The frames before it that were neither kept nor forgotten yet."""
        self._voiced: deque[bool] = deque()
        """The judgements of the frames that the present state looks back on."""
        self._last_voiced = 0

    @property
    def is_speaking(self) -> bool:
        """Whether an utterance has begun and is not complete."""
        return self._state is _State.SPEAKING

    @property
    def held_bytes(self) -> int:
        """How much is held back, undecided."""
        return len(self._rest) + self._frame_bytes * len(self._frames)

    def feed(self, samples: bytes) -> list[Heard]:
        """What a chunk of the stream brings, however the stream is cut into chunks."""
        found: list[Heard] = []
        data = self._rest + samples
        size = self._frame_bytes
        whole = len(data) - len(data) % size
        for start in range(0, whole, size):
            self._take(data[start : start + size], found)
        self._rest = data[whole:]
        return _joined(found)

    def finish(self) -> list[Heard]:
        """What is left when the speaker says that they are done, or the stream ends."""
        found: list[Heard] = []
        left = self._rest[: len(self._rest) - len(self._rest) % SAMPLE_BYTES]
        end = self._sample_of(self._next_frame) + len(left) // SAMPLE_BYTES
        if self.is_speaking:
            self._keep(len(self._frames), found)
            if left:
                found.append(Kept(left, self._sample_of(self._next_frame)))
            found.append(Cut(end, self._sample_of(self._last_voiced + 1)))
        self._skipped_samples += len(left) // SAMPLE_BYTES
        self._rest = b""
        self._frames.clear()
        self._go_to(_State.QUIET)
        return _joined(found)

    def _take(self, frame: bytes, found: list[Heard]) -> None:
        is_voiced = self._detector.is_voiced(frame)
        self._frames.append(frame)
        self._voiced.append(is_voiced)
        if is_voiced:
            self._last_voiced = self._next_frame
        self._next_frame += 1
        if self._state is _State.QUIET:
            self._listen_for_speech(found)
        else:
            self._listen_for_a_pause(found)

    def _listen_for_speech(self, found: list[Heard]) -> None:
        if len(self._voiced) > self._start_window:
            self._voiced.popleft()
        while len(self._frames) > self._start_window + self._pre_roll:
            self._frames.popleft()
        if sum(self._voiced) < self._start_voiced:
            return
        # From the first voice of the window, and what is kept from before it.
        first = len(self._voiced) - self._voiced.index(True)
        while len(self._frames) > first + self._pre_roll:
            self._frames.popleft()
        self._keep(len(self._frames), found)
        self._go_to(_State.SPEAKING)

    def _listen_for_a_pause(self, found: list[Heard]) -> None:
        # Silence is held back until it is known to be a part of speech, or a pause.
        if self._voiced[-1]:
            self._keep(len(self._frames), found)
        if len(self._voiced) > self._pause_window:
            self._voiced.popleft()
        if len(self._voiced) < self._pause_window or sum(self._voiced) > self._pause_voiced:
            return
        tail = min(self._tail, len(self._frames))
        self._keep(tail, found)
        ended_at = self._next_frame - len(self._frames)
        found.append(Cut(self._sample_of(ended_at), self._sample_of(self._last_voiced + 1)))
        self._go_to(_State.QUIET)

    def _keep(self, count: int, found: list[Heard]) -> None:
        """Keep the oldest frames that are held."""
        if count:
            first = self._next_frame - len(self._frames)
            kept = b"".join(self._frames.popleft() for _ in range(count))
            found.append(Kept(kept, self._sample_of(first)))

    def _go_to(self, state: _State) -> None:
        self._state = state
        self._voiced.clear()

    def _sample_of(self, frame: int) -> int:
        return self._skipped_samples + frame * self._frame_bytes // SAMPLE_BYTES


def _joined(found: list[Heard]) -> list[Heard]:
    """The same with samples that follow each other in one piece."""
    joined: list[Heard] = []
    for one in found:
        last = joined[-1] if joined else None
        if isinstance(one, Kept) and isinstance(last, Kept):
            joined[-1] = Kept(last.samples + one.samples, last.at_sample)
        else:
            joined.append(one)
    return joined
