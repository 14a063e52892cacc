"""Rate limits: a limit for each node, and a pause for each subject."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from math import inf
from typing import Generic, TypeVar

from cachetools import TTLCache

from dragoman.clock import Clock
from dragoman.ids import NodeId

KeyT = TypeVar("KeyT", bound=Hashable)


class NodeLimit:
    """Lets each node do something so many times within any stretch of `window_seconds`.

    What is refused does not count, so a node that never stops is still heard now and then. A node
    that was let through nothing within the window is not remembered.
    """

    def __init__(self, window_seconds: float, at_most: int, clock: Clock) -> None:
        self._window_seconds = window_seconds
        self._at_most = at_most
        self._clock = clock
        self._times: OrderedDict[NodeId, deque[float]] = OrderedDict()
        """When each node was let through; the node that was so longest ago comes first."""

    def allows(self, node_id: NodeId) -> bool:
        """Whether the node may do it once more, which is then counted."""
        now = self._clock.monotonic()
        since = now - self._window_seconds
        self._forget(since)
        times = self._times.setdefault(node_id, deque())
        while times and times[0] <= since:
            times.popleft()
        if len(times) >= self._at_most:
            return False
        times.append(now)
        self._times.move_to_end(node_id)
        return True

    def _forget(self, since: float) -> None:
        while self._times:
            times = next(iter(self._times.values()))
            if times[-1] > since:
                return
            self._times.popitem(last=False)

    def __len__(self) -> int:
        """How many nodes are remembered."""
        return len(self._times)


class Debounce(Generic[KeyT]):
    """Lets the first of many calls about one key through, then none for `window_seconds`."""

    def __init__(self, window_seconds: float, clock: Clock) -> None:
        self._recent: TTLCache[KeyT, None] = TTLCache(inf, window_seconds, clock.monotonic)

    def first(self, key: KeyT) -> bool:
        """Whether nothing was let through for the key within the window."""
        if key in self._recent:
            return False
        self._recent[key] = None
        return True

    def __len__(self) -> int:
        """How many keys are remembered."""
        return len(self._recent)
