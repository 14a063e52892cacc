"""How fast a target that refuses calls may be called, learnt from what it lets through.

A budget of calls grows at the learnt rate, during pauses too, and every call takes one from it. So
a window that opens with a new quota is used at once, a bucket that fills slowly is called evenly,
and a target that was closed for a while is made up for: between two refusals as many calls are
made as went well the last time, and a few more.
"""

from __future__ import annotations

import math

HOPE = 1.1
"""How much more is asked for than went well."""

CAUTION = 0.7
"""What is kept of a rate that went well for a while and then was refused."""

FITTING = 0.97
"""What is kept of a rate that the target's own short pauses have told exactly."""

SHARE_AT_ONCE = 0.9
"""How much of what went well at once is asked for at once again; the rest follows evenly."""

DOUBLING_SECONDS = 1.0
"""How fast a rate grows of which nothing is known but that it is not refused."""

CURIOSITY = 0.0004
"""How fast it grows once it has been refused: hardly at first, tenfold in twenty seconds."""

MOMENT_SECONDS = 0.5
"""Refusals that follow within it tell of calls made at once, later ones of calls made steadily."""

_HIGHEST_RATE = 1e6
_ROUNDING = 1e-9


class Pace:
    """When the next call may be made. Times are seconds of one clock, given with each question.

    A pace is free until the first refusal. From then on it is reckoned anew after each pause, when
    it is known which of the calls before it were refused.
    """

    def __init__(self, now: float) -> None:
        self._rate = math.inf
        self._refused_steadily = False
        self._most_at_once = math.inf
        """The largest budget; what the target let through in one go."""
        self._budget = math.inf
        self._reckoned_at = now
        self._began_at = now
        """The end of the pause from which the calls are counted."""
        self._calls = 0
        self._held_up_at: float | None = None
        """Since when nothing but the pace keeps calls from being made."""

    @property
    def calls_a_second(self) -> float:
        """How many calls a second the target bears, as far as is known."""
        return self._rate

    def wait_seconds(self, now: float) -> float:
        """How long the next call has to wait; 0 when it may be made at once."""
        if self._rate == math.inf:
            return 0.0
        self._reckon(now)
        if self._budget >= 1 - _ROUNDING:
            return 0.0
        if self._held_up_at is None:
            self._held_up_at = now
        return (1 - self._budget) / self._rate

    def call_made(self) -> None:
        """A call is made, after there was no more to wait for."""
        self._calls += 1
        self._budget -= 1

    def begin_again(self, now: float) -> None:
        """Count calls from now on; those before were not made at this pace."""
        self._calls = 0
        self._began_at = self._reckoned_at = now
        self._budget = math.inf if self._rate == math.inf else 1.0
        self._held_up_at = None

    def resume(self, now: float, *, refused_at: float, refused: int, told: bool) -> bool:
        """Go on after a pause; False if none of the calls before it went well.

        `refused_at` is when the first of the `refused` calls was; `told` says that the length of
        the pause was the target's wish and not a guess.
        """
        went_well = self._calls - refused
        if went_well <= 0:
            # The pause was too short: it goes on, and so does what is measured. Calls that found
            # that out have used up nothing.
            self._budget = min(self._budget + self._calls, self._most_at_once)
            self._calls = 0
            return False
        seconds = max(now - self._began_at, _ROUNDING)
        measured = went_well / seconds
        tells_exactly = told and seconds < MOMENT_SECONDS and measured > self._rate / 2
        steadily = tells_exactly or self._was_steady(refused_at)
        at_once = not steadily and refused_at - self._began_at < MOMENT_SECONDS
        if at_once:
            self._most_at_once = SHARE_AT_ONCE * min(self._most_at_once, went_well)
        self._refused_steadily = self._refused_steadily or steadily
        if tells_exactly:
            self._rate = FITTING * measured
        else:
            # And one more, because the call that finds out that the target refuses is lost.
            scout = 1 if seconds >= MOMENT_SECONDS else 0
            self._rate = max((HOPE * went_well + scout) / seconds, self._kept_rate(at_once))
        self._budget = max(1.0, min(self._most_at_once, self._rate * (now - refused_at)))
        self._reckoned_at = now
        self._held_up_at = None
        if tells_exactly:
            self._calls = went_well  # the longer it is measured, the better
        else:
            self._calls = 0
            self._began_at = now
        return True

    def _kept_rate(self, at_once: bool) -> float:
        """How much of the rate is left by a refusal, whatever was measured."""
        if not self._refused_steadily:
            return 0.0
        if at_once and self._most_at_once > 1:
            return self._rate  # it has been found before: too many calls were made at once
        return CAUTION * self._rate

    def _was_steady(self, refused_at: float) -> bool:
        """Whether calls were made one by one, as the pace allowed, for a while before it."""
        if self._held_up_at is None:
            return False
        return refused_at - self._held_up_at >= max(MOMENT_SECONDS, 3 / self._rate)

    def _reckon(self, now: float) -> None:
        passed_seconds = now - self._reckoned_at
        if passed_seconds <= 0:
            return
        self._reckoned_at = now
        self._budget += passed_seconds * self._rate
        self._budget = min(self._budget, max(1.0, self._most_at_once))
        if self._held_up_at is None:
            return  # it is not the pace that holds calls back: a higher one would show nothing
        self._rate = min(self._rate * self._growth(now, passed_seconds), _HIGHEST_RATE)

    def _growth(self, now: float, passed_seconds: float) -> float:
        # A long time in which nobody asked is no long time in which nobody was refused.
        doublings = min(passed_seconds, 1.0) / DOUBLING_SECONDS
        if self._refused_steadily:
            age = now - self._began_at
            younger = max(0.0, age - passed_seconds)
            doublings = min(doublings, CURIOSITY * (age**3 - younger**3) / math.log(2))
        return math.exp2(doublings)
