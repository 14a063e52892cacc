"""The service catalog: which services there are, also while its server is away."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Protocol

import httpx
import msgspec

from dragoman.clock import Clock
from dragoman.live.protocol import Outcome
from dragoman.observability import Metrics, get_logger

LARGEST_CATALOG_BYTES = 8 * 1024 * 1024

Text = Annotated[str, msgspec.Meta(max_length=256)]


class CatalogService(msgspec.Struct, frozen=True):
    """A service that nodes may offer."""

    service_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    type: Text
    """Also kinds that the scheduler does not know: the catalog only tells what there is."""
    version: Text
    name: Text | None = None


class CatalogProblem(Exception):
    """Raised when a catalog cannot be fetched or read; the message says why."""


class _Catalog(msgspec.Struct, frozen=True):
    services: tuple[CatalogService, ...]


_decoder = msgspec.json.Decoder(_Catalog)


def read_catalog(data: bytes) -> tuple[CatalogService, ...]:
    """The services of a catalog; a `CatalogProblem` when it is not one."""
    if len(data) > LARGEST_CATALOG_BYTES:
        raise too_large()
    try:
        return _decoder.decode(data).services
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogProblem(f"it is not a catalog: {error}") from error


def too_large() -> CatalogProblem:
    return CatalogProblem(f"it is larger than {LARGEST_CATALOG_BYTES // 1024 // 1024} MB")


class CatalogSource(Protocol):
    """A source of catalogs."""

    async def fetch(self) -> bytes:
        """The catalog as it was answered; raises `CatalogProblem` when there is none to read."""
        ...

    async def close(self) -> None: ...


class HttpCatalogSource:
    """A catalog server. It is trusted with nothing: not with time, size or another address."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        # The client's line for each request would tell the address, which may hold a password.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        # What the environment says about proxies and passwords is not meant for the catalog.
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=timeout_seconds,
            follow_redirects=False,
            trust_env=False,
        )

    async def fetch(self) -> bytes:
        try:
            # The client's own limit is for each step; a server that drips would never end.
            async with asyncio.timeout(self._timeout_seconds):
                return await self._fetch()
        except (TimeoutError, httpx.TimeoutException) as error:
            raise CatalogProblem(f"no whole answer within {self._timeout_seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CatalogProblem(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _fetch(self) -> bytes:
        async with self._client.stream("GET", self._url) as answer:
            if answer.is_redirect:
                raise CatalogProblem(
                    f"the answer was a redirect ({answer.status_code}), which is not followed; "
                    "set scheduler.service_catalog.url to where the catalog is"
                )
            if answer.status_code != httpx.codes.OK:
                raise CatalogProblem(f"the answer was status {answer.status_code}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise CatalogProblem("the answer was compressed; the request did not allow that")
            if int(answer.headers.get("Content-Length", 0)) > LARGEST_CATALOG_BYTES:
                raise too_large()
            return await _read(answer)


async def _read(answer: httpx.Response) -> bytes:
    found = bytearray()
    async for piece in answer.aiter_raw():
        found += piece
        if len(found) > LARGEST_CATALOG_BYTES:
            raise too_large()
    return bytes(found)


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
