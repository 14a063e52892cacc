"""Watching for what takes too long: paths through the code, and waits for a lock."""

from __future__ import annotations

import asyncio
from types import TracebackType

from dragoman.clock import Clock
from dragoman.observability.events import get_logger
from dragoman.observability.metrics import Metrics

_WARN_EVERY_SECONDS = 10.0


class LimitWatch:
    """Measures paths and locks; what passes its limit is counted, and warned of now and then."""

    def __init__(
        self, metrics: Metrics, clock: Clock, *, path_warn_ms: float, lock_wait_warn_ms: float
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._path_warn_seconds = path_warn_ms / 1000
        self._lock_wait_warn_seconds = lock_wait_warn_ms / 1000
        self._log = get_logger(__name__, clock)

    def path(self, name: str) -> WatchedPath:
        """``with watch.path("stats_snapshot"): ...``: the time inside counts, awaits included."""
        return WatchedPath(self, name)

    def watched_lock(self, name: str) -> WatchedLock:
        """A lock for ``async with``; all locks of one name are counted together."""
        return WatchedLock(self, name)

    def now(self) -> float:
        return self._clock.monotonic()

    def path_took(self, name: str, seconds: float) -> None:
        if seconds > self._path_warn_seconds:
            self._metrics.slow_path.labels(name).inc()
            self._warn("slow_path", name, seconds)

    def lock_waited(self, name: str, seconds: float) -> None:
        self._metrics.lock_wait.labels(name).observe(seconds)
        if seconds > self._lock_wait_warn_seconds:
            self._metrics.slow_lock_wait.labels(name).inc()
            self._warn("slow_lock_wait", name, seconds)

    def _warn(self, event: str, name: str, seconds: float) -> None:
        self._log.warning_limited(
            event,
            key=name,
            every_seconds=_WARN_EVERY_SECONDS,
            name=name,
            took_ms=round(seconds * 1000, 3),
        )


class WatchedPath:
    """One pass through a path."""

    __slots__ = ("_name", "_started", "_watch")

    def __init__(self, watch: LimitWatch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = self._watch.now()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._watch.path_took(self._name, self._watch.now() - self._started)


class WatchedLock:
    """An asyncio lock that tells how long it was waited for."""

    __slots__ = ("_lock", "_name", "_watch")

    def __init__(self, watch: LimitWatch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._lock = asyncio.Lock()

    def locked(self) -> bool:
        return self._lock.locked()

    async def __aenter__(self) -> None:
        asked = self._watch.now()
        await self._lock.acquire()
        self._watch.lock_waited(self._name, self._watch.now() - asked)

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
