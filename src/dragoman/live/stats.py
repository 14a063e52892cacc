"""The stats snapshot: made in the background, so that asking for it costs a look.

Its numbers are counters that the rooms keep as things change. A snapshot reads them; it never
passes over nodes, sessions or jobs.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from heapq import nlargest
from typing import Protocol

import msgspec

from dragoman.clock import Clock
from dragoman.errors import DragomanError, StatsNotReady
from dragoman.live.dispatch import JobDispatcher
from dragoman.live.fleet import Registry
from dragoman.live.ledger import Seats
from dragoman.live.protocol import NodeHealth, ServiceType, utc_time
from dragoman.live.sessions import Sessions
from dragoman.live.stats_parts import StatsPart, sum_parts
from dragoman.observability import LimitWatch, Metrics, get_logger
from dragoman.settings import StatsSettings

LANGUAGES_SHOWN = 200
"""Clients name languages freely; beyond this many, the least used are left out."""

RECENT_SECONDS = 60.0
"""How far back the numbers are kept."""

SAMPLE = 1_000
"""Of how many of the last stats requests the time is kept."""

log = get_logger("dragoman.stats")


class LanguageCount(msgspec.Struct, frozen=True):
    """In how many open sessions a language is spoken, and in how many it is heard."""

    as_source: int
    as_target: int


class SessionStats(msgspec.Struct, frozen=True):
    """The open sessions."""

    active: int
    top_languages: tuple[str, ...]
    """Most used first."""
    language_usage: Mapping[str, LanguageCount]


class SlotStats(msgspec.Struct, frozen=True):
    """How many jobs the connected nodes may run at once, and run."""

    total: int
    used: int


class NodeStats(msgspec.Struct, frozen=True):
    """The known nodes."""

    total: int
    by_status: Mapping[NodeHealth, int]
    by_service_type: Mapping[ServiceType, int]
    """Connected nodes that can do each kind of work now."""
    slots: SlotStats


class JobStats(msgspec.Struct, frozen=True):
    """Jobs since the instances that are present started, and those that nodes have now."""

    created: int
    running: int
    success: int
    failed: int


class Stats(msgspec.Struct, frozen=True):
    """The answer of ``GET /api/v1/stats``."""

    generated_at: str
    stale: bool
    sessions: SessionStats
    nodes: NodeStats
    jobs: JobStats


class StatsExchange(Protocol):
    """Other instances, each with its part in the whole."""

    def tell(self, part: StatsPart) -> None:
        """This instance's part as it is now."""
        ...

    def others(self) -> Iterable[StatsPart]:
        """What those that are present said last."""
        ...


class StatsSource:
    """Reads the counters of the rooms."""

    def __init__(
        self,
        *,
        registry: Registry,
        sessions: Sessions,
        dispatcher: JobDispatcher,
        ledger: Seats,
        metrics: Metrics,
        clock: Clock,
        top_k: int,
        exchange: StatsExchange | None = None,
    ) -> None:
        """exchange: the other instances, told this one's numbers; None: there are none."""
        self._exchange = exchange
        self._registry = registry
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._ledger = ledger
        self._job_duration = metrics.job_duration
        self._dispatch_latency = metrics.dispatch_latency
        self._slots_free = metrics.slots.labels("free")
        self._slots_used = metrics.slots.labels("used")
        self._clock = clock
        self._top_k = top_k
        self.recent: deque[tuple[float, StatsPart]] = deque()
        """The numbers of the last minute, each with the time of its look, for rates."""

    def _keep(self, whole: StatsPart) -> None:
        now = self._clock.monotonic()
        self.recent.append((now, whole))
        while self.recent[0][0] < now - RECENT_SECONDS:
            self.recent.popleft()

    async def take(self) -> Stats:
        """The numbers of this moment, at the cost of one look for each language and service."""
        used = await self._ledger.slots_held()
        census = self._registry.census
        if self._exchange is not None:
            self._exchange.tell(self._own_part())
        whole = self.whole()
        self._keep(whole)
        # A quiet server would otherwise keep its last two thousand jobs for days.
        self._dispatcher.history.count()
        slots = SlotStats(total=census.slots, used=used)
        self._slots_used.set(used)
        self._slots_free.set(max(0, slots.total - used))
        usage = language_usage(Counter(whole.as_source), Counter(whole.as_target))
        return Stats(
            generated_at=utc_time(self._clock.now_ms()),
            stale=False,
            sessions=SessionStats(
                active=whole.sessions,
                top_languages=tuple(usage)[: self._top_k],
                language_usage=usage,
            ),
            nodes=NodeStats(
                total=census.total,
                by_status={status: census.by_status[status] for status in NodeHealth},
                by_service_type={kind: census.by_service_type[kind] for kind in ServiceType},
                slots=slots,
            ),
            jobs=JobStats(
                created=whole.jobs_created,
                running=whole.jobs_running,
                success=whole.jobs_success,
                failed=whole.jobs_failed,
            ),
        )

    def whole(self) -> StatsPart:
        """All instances in numbers: this one as it is now, the others as they last said."""
        others = self._exchange.others() if self._exchange is not None else ()
        return sum_parts([self._own_part(), *others])

    def _own_part(self) -> StatsPart:
        tally, usage = self._dispatcher.tally, self._sessions.languages
        return StatsPart(
            sessions=len(self._sessions),
            as_source=dict(usage.as_source.most_common(LANGUAGES_SHOWN)),
            as_target=dict(usage.as_target.most_common(LANGUAGES_SHOWN)),
            jobs_created=tally.created,
            jobs_running=self._dispatcher.counts()["attempts"],
            jobs_success=tally.succeeded,
            jobs_failed=tally.failed,
            jobs_waiting=self._dispatcher.counts()["waiting"],
            refused=dict(tally.refused),
            refused_pairs=dict(tally.refused_pairs),
            job_durations=self._job_duration.counts,
            dispatch_latencies=self._dispatch_latency.counts,
            session_changes=self._sessions.changes,
            refused_reasons=dict(tally.refused_reasons),
        )


def language_usage(spoken: Counter[str], heard: Counter[str]) -> dict[str, LanguageCount]:
    """The languages in use, most used first."""
    most_used = nlargest(
        LANGUAGES_SHOWN,
        spoken.keys() | heard.keys(),
        key=lambda language: (spoken[language] + heard[language], language),
    )
    return {language: LanguageCount(spoken[language], heard[language]) for language in most_used}


class StatsCache:
    """The last snapshot, for any number of readers. No reader waits for one to be made.

    One is made every `snapshot_seconds`. A reader who finds none, or only a stale one, has one
    made in the background: one at a time, and for readers at most one in `cold_window_seconds`.
    """

    def __init__(
        self,
        take: Callable[[], Awaitable[Stats]],
        rules: StatsSettings,
        metrics: Metrics,
        watch: LimitWatch,
        clock: Clock,
    ) -> None:
        self._take = take
        self._rules = rules
        self._metrics = metrics
        self._watch = watch
        self._clock = clock
        self._snapshot: Stats | None = None
        self._taken_at = clock.monotonic()
        """While there is no snapshot: since when one is wanted."""
        self._asked_at: float | None = None
        self._making: asyncio.Task[None] | None = None
        self._times: deque[float] = deque(maxlen=SAMPLE)
        self.requests = 0
        self.stale_requests = 0
        metrics.stats_snapshot_age.set_function(self._age_seconds)

    @property
    def snapshot(self) -> Stats | None:
        """The last one made."""
        return self._snapshot

    def read(self) -> Stats:
        """The last snapshot, marked when it is stale; refused when none was made yet."""
        self.requests += 1
        self._metrics.stats_requests.inc()
        stale = self._age_seconds() > self._rules.stale_after_seconds
        if self._snapshot is None or stale:
            self._have_one_made()
        if self._snapshot is None:
            raise StatsNotReady(
                "No stats have been gathered yet; ask again in a few seconds.",
                retry_after_ms=int(self._rules.snapshot_seconds * 1000),
            )
        if not stale:
            return self._snapshot
        self.stale_requests += 1
        self._metrics.stats_stale.inc()
        return msgspec.structs.replace(self._snapshot, stale=True)

    def answered(self, seconds: float) -> None:
        """A request for stats took this long."""
        self._times.append(seconds)
        self._metrics.stats_request_duration.observe(seconds)

    def latency_ms(self, share: float) -> float:
        """The time within which this share of the last requests was answered; 0 without any."""
        times = sorted(self._times)
        return times[min(len(times) - 1, int(share * len(times)))] * 1000 if times else 0.0

    async def run(self) -> None:
        """Make a snapshot again and again, until cancelled."""
        try:
            while True:
                self._make()
                await asyncio.sleep(self._rules.snapshot_seconds)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Break off what is being made."""
        making, self._making = self._making, None
        if making is not None:
            making.cancel()
            await asyncio.wait([making])

    def _have_one_made(self) -> None:
        now = self._clock.monotonic()
        window_seconds = self._rules.cold_window_seconds
        if self._asked_at is None or now - self._asked_at >= window_seconds:
            self._asked_at = now
            self._make()

    def _make(self) -> None:
        """Begin to make a snapshot, unless one is being made."""
        if self._making is None or self._making.done():
            self._making = asyncio.get_running_loop().create_task(self._generate(), name="stats")

    async def _generate(self) -> None:
        try:
            with self._watch.path("stats_snapshot"):
                snapshot = await self._take()
        except DragomanError as error:
            # The old snapshot stays, and is called stale in time.
            log.warning_limited("stats_skipped", key="stats", every_seconds=10, error=error.message)
        except Exception:
            log.exception("stats_failed")
        else:
            self._snapshot = snapshot
            self._taken_at = self._clock.monotonic()

    def _age_seconds(self) -> float:
        return self._clock.monotonic() - self._taken_at
