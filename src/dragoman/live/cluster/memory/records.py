"""What the hub counts in, and who listens to it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Window(msgspec.Struct):
    """A window of time, and how many were counted in it."""

    ends_at_ms: int
    count: int = 0


class FeedListener(msgspec.Struct, frozen=True):
    """A listener of the feed."""

    on_called: Callable[[bytes], None]
    on_gap: Callable[[], None]
