"""How long to wait before something is tried again."""

from __future__ import annotations

from random import Random

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0


def backoff_seconds(failures: int, random: Random) -> float:
    """The pause after so many failures in a row: longer each time, and never the same for two.

    The whole of it is left to chance ("full jitter"), so that items that failed together do not
    come back together.
    """
    longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 30))
    return random.uniform(0, longest)
