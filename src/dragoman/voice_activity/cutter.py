"""Utterances from a stream that never stops: speech is kept, silence is not, pauses cut."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from dragoman.audio import SAMPLE_BYTES
from dragoman.errors import SettingsError
from dragoman.voice_activity.detectors import Judgement


class SpeechRules(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as speech, and what as a pause."""

    pause_ms: float = 500
    """This much without a voice ends an utterance."""
    min_speech_ms: float = 120
    """This much voice begins one; less is a click or a cough."""
    pre_roll_ms: float = 200
    """What is kept from before the voice: the first sound of a word is often not heard as one."""
    tail_ms: float = 300
    """What is kept from after it: the last sounds of a word are often not heard as a voice."""
    max_ms: float = 10_000
    """No utterance is longer."""


class SpokenEnd(StrEnum):
    """Why an utterance ends."""

    PAUSE = "pause"
    LENGTH = "length"
    FINISHED = "finished"


class Spoken(msgspec.Struct, frozen=True):
    """One utterance. Places are in bytes from the beginning of the stream."""

    samples: bytes
    end: SpokenEnd
    start_byte: int
    end_byte: int
    speech_end_byte: int
    """Where its last voice ended."""


_STARTS_WITHIN = 2.0
"""The voice that begins an utterance may be spread over so many times `min_speech_ms`."""
_NOISE_IN_A_PAUSE = 0.1
"""The share of a pause that a detector may take for a voice: noise is heard as one now and then."""
_SHORT_OF_LENGTH = 0.5
"""From this share of the greatest length on, an utterance may be cut between two words."""
_QUIET_SHARE = 0.35
"""A gap between words is so far from the quietest to the mean loudness, or quieter. A detector goes
on hearing a voice for a while, and so does not see short gaps."""
_GAP_SHARE = 0.6
"""Where the quietest frame is louder than this share of the mean, there is no gap."""
_LONGEST_GAPS = 3
"""So many of the longest gaps are looked at: the one that is long, and still for long, is between
words. A word has gaps, too, before some of its sounds."""
_STILL_SHARE = 0.02
_STILL_TIMES = 1.3
"""The still part of a gap is at most so many times as loud as its quietest frame, and this share of
the mean. Around it words fade out and begin."""
_LATE_IN_GAP = 0.65
"""So far into the still part is the cut: words fade out for longer than they take to begin."""
_EVERY = 4
"""So many samples of speech are alike enough for one of them to tell how loud they are."""


class Cutter:
    """Takes a speaker's stream apart, frame by frame, as a detector judges the frames.

    | state | what it waits for | and then |
    | --- | --- | --- |
    | quiet | min_speech_ms of voice, close together | an utterance begins, pre_roll_ms before it |
    | speaking | pause_ms with next to no voice | it ends, tail_ms after the voice: quiet |
    | speaking | max_ms | it ends, between two words if it can, and the next begins there |

    While it is quiet it holds little more than the pre-roll, and while a speaker speaks, the
    utterance.
    """

    def __init__(
        self,
        frame_bytes: int,
        sample_rate: int,
        rules: SpeechRules | None = None,
        *,
        goes_on: bool = False,
    ) -> None:
        """goes_on: the stream begins where an utterance was cut for its length."""
        rules = rules or SpeechRules()
        frame_ms = 1000 * frame_bytes / SAMPLE_BYTES / sample_rate
        if rules.pause_ms < frame_ms:
            raise SettingsError(
                f"a pause of {rules.pause_ms:g} ms is shorter than the {frame_ms:.0f} ms that "
                "voice activity looks at; give a longer one"
            )

        def frames(ms: float) -> int:
            return max(1, round(ms / frame_ms))

        self._frame_bytes = frame_bytes
        self._start_voiced = frames(rules.min_speech_ms)
        start_window = max(self._start_voiced, frames(rules.min_speech_ms * _STARTS_WITHIN))
        self._start_mask = (1 << start_window) - 1
        pause_window = frames(rules.pause_ms)
        self._pause_mask = (1 << pause_window) - 1
        self._pause_voiced = int(pause_window * _NOISE_IN_A_PAUSE)
        self._pre_roll = round(rules.pre_roll_ms / frame_ms)
        self._held_when_quiet = start_window + self._pre_roll
        self._tail = round(rules.tail_ms / frame_ms)
        self._longest = max(1, int(rules.max_ms / frame_ms))

        self.is_speaking = goes_on
        """An utterance has begun and is not complete."""
        self.waiting: list[bytes] = []
        """What comes after the frames that were given out to be judged: of the next frame, and of
        more while they need not be judged."""
        self._origin_byte = 0
        """Where in the stream the frame of number 0 begins."""
        self._pieces: deque[bytes] = deque()
        """The frames that may be part of an utterance, and were not given out, as they came: one
        long buffer would be copied again and again as it grows."""
        self._passed_bytes = 0
        """What of the first piece is none of them any more."""
        self._held_bytes = 0
        self._first = 0
        """The number of the first of them."""
        self._next = 0
        """The number of the frame that is judged next."""
        self._voiced_until = 0
        """The number of the frame after the last voice."""
        self._history = self._pause_mask if goes_on else 0
        """The last judgements, a bit each, the newest lowest."""

    @property
    def held_bytes(self) -> int:
        """How much is held, undecided."""
        return self._held_bytes + sum(map(len, self.waiting))

    @property
    def undecided_byte(self) -> int:
        """Where in the stream that begins which may yet become part of an utterance."""
        return self._origin_byte + self._first * self._frame_bytes

    def add(self, samples: bytes) -> bytes:
        """Take what comes next in the stream; the whole frames that are to be judged now."""
        if self.waiting:
            self.waiting.append(samples)
            samples = b"".join(self.waiting)
            self.waiting.clear()
        rest_bytes = len(samples) % self._frame_bytes
        if rest_bytes:
            self.waiting.append(samples[-rest_bytes:])
            samples = samples[:-rest_bytes]
        if samples:
            self._pieces.append(samples)
            self._held_bytes += len(samples)
        return samples

    def take(self, judgements: Sequence[Judgement]) -> list[Spoken]:
        """The utterances that end with the next frames, which were judged."""
        found: list[Spoken] = []
        history, number = self._history, self._next
        count = len(judgements)
        if not count:
            return found
        # Nearly all frames go on with what those before them began.
        if self.is_speaking:
            if min(judgements) > 0 and number + count - self._first < self._longest:
                self._history = (history + 1 << count) - 1 & self._pause_mask
                self._next = self._voiced_until = number + count
                return found
        elif max(judgements) <= 0:
            self._history = history << count & self._start_mask
            self._next = number + count
            self._forget_until(number + count - self._held_when_quiet)
            return found
        for judgement in judgements:
            number += 1
            voiced = judgement > 0
            if judgement < 0:
                history &= -1 << -judgement
                self._voiced_until = min(self._voiced_until, number - 1 + judgement)
            if self.is_speaking:
                history = (history << 1 | voiced) & self._pause_mask
                if voiced:
                    self._voiced_until = number
                elif history.bit_count() <= self._pause_voiced:
                    # After a cut for length there may be nothing but the pause.
                    if self._voiced_until > self._first:
                        until = min(number, self._voiced_until + self._tail)
                        found.append(self._give_out(until, SpokenEnd.PAUSE))
                    self.is_speaking = False
                    history = 0
                    continue
                if number - self._first >= self._longest:
                    found.append(self._cut_for_length())
                    # What came before the cut is no part of a pause after it.
                    history |= self._pause_mask & -1 << (number - self._first)
                continue
            history = (history << 1 | voiced) & self._start_mask
            if voiced and history.bit_count() >= self._start_voiced:
                self._begin(number, history)
                history = self._pause_mask
                while number - self._first >= self._longest:
                    found.append(self._cut_for_length())
        self._history, self._next = history, number
        if not self.is_speaking:
            self._forget_until(number - self._held_when_quiet)
        return found

    def finish(self, *, drop_half: bool = False) -> Spoken | None:
        """What is left when the speaker says that they are done, or no more comes.

        Every frame has been judged by then. Half a sample at the end is dropped, or it begins what
        comes next.
        """
        left = b"".join(self.waiting)
        self.waiting.clear()
        half_bytes = len(left) % SAMPLE_BYTES
        if half_bytes:
            if not drop_half:
                self.waiting.append(left[-half_bytes:])
            left = left[:-half_bytes]
        end_byte = self._origin_byte + self._next * self._frame_bytes + len(left)
        if drop_half:
            end_byte += half_bytes
        spoken = None
        if self.is_speaking and self._voiced_until > self._first:
            spoken = Spoken(
                self._held() + left,
                SpokenEnd.FINISHED,
                self.undecided_byte,
                end_byte,
                self._origin_byte + self._voiced_until * self._frame_bytes,
            )
        self._origin_byte = end_byte
        self._pieces.clear()
        self._passed_bytes = self._held_bytes = 0
        self._first = self._next = self._voiced_until = self._history = 0
        self.is_speaking = False
        return spoken

    def _begin(self, number: int, history: int) -> None:
        """An utterance begins with the first voice of the window, and what is kept before it."""
        first_voiced = number - history.bit_length()
        self._forget_until(first_voiced - self._pre_roll)
        self.is_speaking = True
        self._voiced_until = number

    def _cut_for_length(self) -> Spoken:
        """End an utterance that may not grow: in the still part of a long late gap.

        Only what the frames sound like decides, so that an instance that goes on with the stream
        cuts it at the same places.
        """
        first, held = int(self._longest * _SHORT_OF_LENGTH), self._held()
        loudness = [self._loudness(held, place, _EVERY) for place in range(first, self._longest)]
        quietest, mean = min(loudness), sum(loudness) / len(loudness)
        at, size = self._longest, 0
        if quietest <= _GAP_SHARE * mean:
            quiet = quietest + _QUIET_SHARE * (mean - quietest)
            gaps = sorted(_runs([loud <= quiet for loud in loudness]), key=len, reverse=True)
            for gap in gaps[:_LONGEST_GAPS]:
                around = [self._loudness(held, first + place) for place in gap]
                most = min(around) * _STILL_TIMES + _EVERY * mean * _STILL_SHARE
                still = max(_runs([loud <= most for loud in around]), key=len)
                if len(gap) + len(still) > size:
                    size = len(gap) + len(still)
                    at = first + gap.start + still.start + round(len(still) * _LATE_IN_GAP)
        return self._give_out(self._first + max(1, at), SpokenEnd.LENGTH)

    def _held(self) -> bytes:
        """The frames that were not given out, in one piece."""
        return b"".join(self._pieces)[self._passed_bytes :]

    def _loudness(self, held: bytes, place: int, every: int = 1) -> int:
        """How loud one of the frames is, by all or some of its samples."""
        start = place * self._frame_bytes
        return sum(map(abs, array("h", held[start : start + self._frame_bytes])[::every]))

    def _give_out(self, until: int, end: SpokenEnd) -> Spoken:
        """The frames up to a number, as an utterance."""
        start_byte = self.undecided_byte
        size = (until - self._first) * self._frame_bytes
        voiced_until = min(self._voiced_until, until)
        spoken = Spoken(
            self._held()[:size],
            end,
            start_byte,
            start_byte + size,
            self._origin_byte + voiced_until * self._frame_bytes,
        )
        self._forget_until(until)
        return spoken

    def _forget_until(self, number: int) -> None:
        count = number - self._first
        if count > 0:
            self._first = number
            self._held_bytes -= count * self._frame_bytes
            passed = self._passed_bytes + count * self._frame_bytes
            pieces = self._pieces
            while pieces and passed >= len(pieces[0]):
                passed -= len(pieces.popleft())
            self._passed_bytes = passed


def _runs(holds: Sequence[bool]) -> list[range]:
    """The runs of places for which it holds."""
    found: list[range] = []
    start = 0
    for place, one in enumerate((*holds, False)):
        if not one:
            if place > start:
                found.append(range(start, place))
            start = place + 1
    return found
