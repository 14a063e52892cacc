"""Python's search for reference cycles, set for processes that make few of them."""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 20_000
"""How many more objects there are before the collector looks at the youngest."""


def calm_collector() -> None:
    """Look for reference cycles less often, and never among what was made at the start.

    A server makes a few dozen objects a job or an item and hardly a cycle; at Python's own pace
    the search for them takes a quarter of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 50, 100)
