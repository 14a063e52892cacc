"""The answer cache: what targets and judges answered before, for each tenant apart."""

from __future__ import annotations

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.ids import TenantId
from dragoman.lab.repository import response_cache
from dragoman.observability import get_logger
from dragoman.settings import LabSettings
from dragoman.store import Store

MAX_ANSWER_BYTES = 1 << 20
"""Longer answers are not kept: a cache of recordings would outgrow the experiments."""

_DAY_MS = 86_400_000


class TenantAnswers:
    """The answers of one tenant; no other tenant's are found."""

    def __init__(self, store: Store, tenant: TenantId, clock: Clock) -> None:
        self._store = store
        self._tenant = tenant
        self._clock = clock
        self._log = get_logger(__name__, clock)

    async def find(self, key: str) -> bytes | None:
        try:
            found = await self._store.read(
                lambda c: response_cache.find_answer(c, self._tenant, key)
            )
        except StoreError as error:
            self._say(error)
            return None
        return None if found is None else found.encode()

    async def keep(self, key: str, answer: bytes) -> None:
        if len(answer) > MAX_ANSWER_BYTES or b"\\u0000" in answer:
            return  # no database is sure to store a NUL character
        kept = response_cache.CachedAnswer(self._tenant, key, answer.decode(), self._clock.now_ms())
        try:
            await self._store.write(lambda c: response_cache.keep_answer(c, kept))
        except StoreError as error:
            self._say(error)

    def _say(self, error: StoreError) -> None:
        self._log.warning_limited(
            "lab_answer_cache_away", key="", every_seconds=10, reason=error.message
        )


async def clear_answers(store: Store, tenant: TenantId) -> int:
    """Remove every answer of a tenant; how many there were."""
    removed = 0
    while some := await store.write(lambda c: response_cache.remove_answers(c, tenant)):
        removed += some
    return removed


async def trim_answers(store: Store, settings: LabSettings, now_ms: int) -> None:
    """Remove the answers that are too old, and the oldest of a tenant that has too many."""
    for tenant in await store.read(response_cache.tenants_with_answers):
        surplus_ms = await store.read(
            lambda c: response_cache.newest_surplus_ms(c, tenant, settings.cache_answers)  # noqa: B023
        )
        old_ms = now_ms - settings.cache_days * _DAY_MS if settings.cache_days else None
        ends = [end for end in (surplus_ms, old_ms) if end is not None]
        if not ends:
            continue
        up_to_ms = max(ends)
        while await store.write(
            lambda c: response_cache.remove_answers(c, tenant, up_to_ms)  # noqa: B023
        ):
            pass
