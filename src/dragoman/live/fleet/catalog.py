"""The service catalog: which services there are, also while its server is away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from dragoman.clock import Clock
from dragoman.live.fleet.catalog_form import (
    LARGEST_CATALOG_BYTES,
    CatalogProblem,
    CatalogService,
    read_catalog,
)
from dragoman.live.fleet.catalog_source import CatalogSource
from dragoman.live.protocol import Outcome
from dragoman.observability import Metrics, get_logger

log = get_logger("dragoman.fleet")

_SOONEST_SECONDS = 1.0
"""The shortest time between two fetches, however often callers ask for one."""

_MOST_DOUBLINGS = 32
_ERROR_MAX_CHARACTERS = 300


class CatalogRules(msgspec.Struct, frozen=True, kw_only=True):
    """How often the catalog is fetched, and what is used until it was."""

    refresh_seconds: float
    backoff_after: int
    max_refresh_seconds: float
    local_index: str = ""

    def pause_seconds(self, fail_count: int) -> float:
        """How long to wait for the next fetch after so many failures in a row."""
        doublings = min(_MOST_DOUBLINGS, max(0, fail_count - self.backoff_after + 1))
        longest = max(self.refresh_seconds, self.max_refresh_seconds)
        return min(longest, self.refresh_seconds * 2.0**doublings)


class CatalogState(msgspec.Struct, frozen=True, kw_only=True):
    """The catalog as it is known, and how the knowledge was come by. Times are of the wall."""

    services: tuple[CatalogService, ...] = ()
    fetched_at_ms: int | None = None
    """When these services were read, from the server or from the local index."""
    last_success_at_ms: int | None = None
    """When the server last answered with a catalog."""
    fail_count: int = 0
    """Fetches that failed since then."""
    last_error: str | None = None
    next_refresh_at_ms: int | None = None


class ServiceCatalog:
    """Holds the catalog, and renews it in the background.

    Readers look at `state`, which is always there. A fetch that fails changes nothing but the
    account of failures: old services are served until new ones came.
    """

    def __init__(
        self, rules: CatalogRules, source: CatalogSource | None, metrics: Metrics, clock: Clock
    ) -> None:
        self._rules = rules
        self._source = source
        self._metrics = metrics
        self._clock = clock
        self._wanted = asyncio.Event()
        self._fresh_at = clock.monotonic()
        """When the last fetch succeeded, or the catalog was set up."""
        self.state = CatalogState()
        metrics.service_catalog_last_success_age.set_function(self._age_seconds)

    @property
    def failing(self) -> bool:
        """Whether the last fetch failed."""
        return self.state.fail_count > 0

    def refresh_soon(self) -> None:
        """Fetch the catalog before its time; while fetches fail, they keep their own pace."""
        if not self.failing:
            self._wanted.set()

    def job_ended(self, outcome: Outcome) -> None:
        """Count how jobs end while the catalog cannot be fetched."""
        if self.failing:
            self._metrics.jobs_catalog_down.labels(outcome.value).inc()

    def load_local_index(self) -> None:
        """Use the catalog file, if there is one, until the first fetch succeeds."""
        if not self._rules.local_index:
            return
        try:
            services = read_catalog(_read_file(self._rules.local_index))
        except (OSError, CatalogProblem) as error:
            said = f"The local index {self._rules.local_index} cannot be used: {error}."
            self._change(last_error=said[:_ERROR_MAX_CHARACTERS])
            log.warning("catalog_index_unusable", path=self._rules.local_index, error=str(error))
        else:
            self._change(services=services, fetched_at_ms=self._clock.now_ms())

    async def run(self) -> None:
        """Fetch the catalog again and again; without a catalog server there is nothing to do."""
        if self._source is None:
            return
        try:
            while True:
                started_at = self._clock.monotonic()
                await self._refresh(self._source)
                await self._rest(started_at)
        finally:
            await self._source.close()

    async def _refresh(self, source: CatalogSource) -> None:
        try:
            services = read_catalog(await source.fetch())
        except CatalogProblem as problem:
            self._failed(str(problem))
        except Exception as error:
            # Whatever a server can do to its client, the next fetch is due as before.
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._succeeded(services)

    def _succeeded(self, services: tuple[CatalogService, ...]) -> None:
        if self.failing:
            log.info("catalog_is_back", fail_count=self.state.fail_count, services=len(services))
        now_ms = self._clock.now_ms()
        self._fresh_at = self._clock.monotonic()
        self._metrics.service_catalog_fail_count.set(0)
        self._change(
            services=services,
            fetched_at_ms=now_ms,
            last_success_at_ms=now_ms,
            fail_count=0,
            last_error=None,
        )

    def _failed(self, why: str) -> None:
        fail_count = self.state.fail_count + 1
        said = f"The catalog could not be fetched: {why}."
        self._change(fail_count=fail_count, last_error=said[:_ERROR_MAX_CHARACTERS])
        self._metrics.service_catalog_fail_count.set(fail_count)
        log.warning("catalog_refresh_failed", fail_count=fail_count, error=why)

    async def _rest(self, started_at: float) -> None:
        """Wait until the next fetch is due, or wanted."""
        seconds = self._rules.pause_seconds(self.state.fail_count)
        self._change(next_refresh_at_ms=self._clock.now_ms() + int(seconds * 1000))
        self._wanted.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(0.0, started_at + _SOONEST_SECONDS - self._clock.monotonic()))

    def _change(self, **fields: object) -> None:
        self.state = msgspec.structs.replace(self.state, **fields)

    def _age_seconds(self) -> float:
        return 0.0 if self._source is None else self._clock.monotonic() - self._fresh_at


def _read_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        # One byte more than may be: enough to know that it is too large.
        return file.read(LARGEST_CATALOG_BYTES + 1)
