"""Every tenant's terms in this process, as the database had them a moment ago."""

from __future__ import annotations

import asyncio

from dragoman.errors import DragomanError
from dragoman.glossary.store import GlossaryStore
from dragoman.glossary.terms import GlossaryRules, TenantGlossary
from dragoman.ids import TenantId
from dragoman.observability import get_logger

log = get_logger("dragoman.glossary")


class Glossaries:
    """A plane of the server: it reads at the start, and again what was changed since."""

    def __init__(self, store: GlossaryStore, rules: GlossaryRules) -> None:
        self._store = store
        self._rules = rules
        self.by_tenant: dict[TenantId, TenantGlossary] = {}
        """Only of tenants that have terms. The one dict is shared, and changed in place."""
        self._revisions: dict[TenantId, int] = {}
        self._reading = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.refresh()
        self._following = asyncio.create_task(self._follow(), name="glossaries")

    async def drain(self) -> None:
        """Jobs in hand still need their terms."""

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def refresh(self) -> None:
        """Read what was changed since the last time."""
        async with self._reading:
            revisions = await self._store.revisions()
            for tenant, revision in revisions.items():
                known = self._revisions.get(tenant)
                if known != revision:
                    await self._read(tenant)

    async def _read(self, tenant: TenantId) -> None:
        revision, entries = await self._store.whole(tenant)
        self._revisions[tenant] = revision
        if entries:
            self.by_tenant[tenant] = TenantGlossary(entries, self._rules)
        else:
            self.by_tenant.pop(tenant, None)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._rules.refresh_seconds)
            try:
                await self.refresh()
            except DragomanError as error:
                # What is known goes on; the database's readiness says that it is away.
                log.warning_limited(
                    "glossary_not_read", key="read", every_seconds=60, error=error.message
                )
