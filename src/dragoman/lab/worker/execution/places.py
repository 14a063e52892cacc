"""How many calls at once a target bears, where that is what it counts.

Such a target refuses whoever comes while its places are taken, and lets the next one in as soon as
one is free, whatever it said about when to come back. So while calls pause, one that ends well
passes its place on to one that waits. When that goes well often enough, the places are what the
target counts, and from then on they alone decide; when it is refused, they are not, and for a
while it is not tried again.
"""

from __future__ import annotations

import math

FEWEST_IN_TURN = 8
"""So many at least have to be let in on the place of another, one after the other, to prove it."""

FIRST_DOUBT_PAUSES = 1
DEEP_DOUBT_PAUSES = 32
LONGEST_DOUBT_PAUSES = 1024
"""For how many pauses it is not tried again: once it was refused, once it misled, at most."""

MOST_SURPRISES = 2
"""Refusals of calls that had a place, one soon after the other, that prove the contrary."""

CALLS_TO_FORGET_A_SURPRISE = 10

SETTLE_SECONDS = 0.25
"""How long a larger number is tried before it is taken for one that the target bears."""

FIRST_CONTENTMENT_SECONDS = 1.0
LONGEST_CONTENTMENT_SECONDS = 30.0
"""How long a number that was found is kept before a larger one is tried; longer each time."""


class Places:
    """Learns a target's number of places; there is no such number at first."""

    def __init__(self) -> None:
        self.most = math.inf
        """How many calls may run at once, as far as the target tells."""
        self._in_turn = 0
        """Calls in a row that were let in on the place of another."""
        self._doubt_pauses = 0
        self._pauses_to_come = 0
        """Pauses in which it is not tried, because it was refused before."""
        self._surprises = 0
        self._well_since = 0
        """Calls that went well since the last surprise."""
        self._step = 1
        self._too_many = 0
        """Calls that were let in to try a larger number, and have not been refused."""
        self._grow_at = 0.0
        self._contentment_seconds = FIRST_CONTENTMENT_SECONDS

    @property
    def known(self) -> bool:
        return self.most < math.inf

    # --- while calls pause --------------------------------------------------------------------

    @property
    def may_be_passed_on(self) -> bool:
        """Whether a call that ends well during a pause makes room for another."""
        return self._pauses_to_come == 0

    @property
    def proven_once(self) -> bool:
        """Whether the last call on the place of another went well."""
        return self._in_turn > 0

    def pause_over(self) -> None:
        self._pauses_to_come = max(0, self._pauses_to_come - 1)

    def let_in(self, running: int, now: float) -> bool:
        """A call on the place of another went well, as one of so many; whether that proves it."""
        self._in_turn += 1
        if self._in_turn < max(FEWEST_IN_TURN, running):
            return False
        self.most = running
        self._in_turn = self._surprises = self._well_since = self._too_many = 0
        self._step = 1
        self._contentment_seconds = FIRST_CONTENTMENT_SECONDS
        self._grow_at = now + SETTLE_SECONDS
        return True

    def not_let_in(self) -> None:
        """A call on the place of another was refused: it is not places that are counted."""
        self._in_turn = 0
        self._doubt(FIRST_DOUBT_PAUSES)

    # --- once they are known ------------------------------------------------------------------

    def wait_seconds(self, running: int, now: float) -> float:
        """How long a call has to wait; infinite when it is until another one ends."""
        if running < self.most:
            return 0.0
        if now < self._grow_at:
            return self._grow_at - now
        self.most = running + self._step
        self._too_many = self._step
        self._step *= 2
        self._grow_at = now + SETTLE_SECONDS
        return 0.0

    def went_well(self) -> None:
        """A call that had a place went well."""
        self._well_since += 1
        if self._well_since >= CALLS_TO_FORGET_A_SURPRISE * self.most:
            self._surprises = self._well_since = 0

    def refused(self, running: int, now: float, *, asked_seconds: float | None, late: bool) -> bool:
        """A call was refused while so many others ran; whether it is still places that count.

        A `late` one was made before the places were known.
        """
        if self._too_many > 0 and now < self._grow_at:  # as was to be expected
            self._too_many -= 1
            if self._step > 1:
                longer_seconds = 2 * self._contentment_seconds
                self._contentment_seconds = min(LONGEST_CONTENTMENT_SECONDS, longer_seconds)
        elif not late:
            self._surprises += 1
            self._well_since = 0
            self._contentment_seconds = FIRST_CONTENTMENT_SECONDS
        if running == 0 or self._surprises >= MOST_SURPRISES:
            self.most = math.inf
            self._doubt(DEEP_DOUBT_PAUSES if running else FIRST_DOUBT_PAUSES)
            return False
        self._step = 1
        self.most = running  # they are all that have a place
        self._grow_at = now + max(self._contentment_seconds, asked_seconds or 0.0)
        return True

    def _doubt(self, at_least_pauses: int) -> None:
        longer_pauses = max(at_least_pauses, 2 * self._doubt_pauses)
        self._doubt_pauses = self._pauses_to_come = min(LONGEST_DOUBT_PAUSES, longer_pauses)
