"""What measuring a text gives: a score, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Measure(NamedTuple):
    """The score of one text, or the reason why it has none."""

    score: float | None = None
    statistics: Sequence[float] | None = None
    """What corpus scores are computed from, once it is added up over texts."""
    reason: str | None = None
    """The score in words."""
    problem: str | None = None


class Unscorable(Exception):
    """Raised when a text cannot be measured, whatever is tried."""
