"""The stored glossary, on every kind of database; two instances see each other's changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.servers import DATABASES, fresh_database

from dragoman.clock import ManualClock
from dragoman.errors import NotFound, QuotaExceeded
from dragoman.glossary import Entry, Glossaries, GlossaryRules, GlossaryStore
from dragoman.ids import TenantId
from dragoman.store import open_store, upgrade

RED, BLUE = TenantId("red"), TenantId("blue")
RULES = GlossaryRules(100, 10_000, 60.0)


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = fresh_database(request.param, request, tmp_path)
    upgrade(url)
    return url


def on(url: str, story: Callable[[GlossaryStore, ManualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with await open_store(url) as store:
            await story(GlossaryStore(store, clock, terms_per_tenant=5), clock)

    asyncio.run(main())


def test_terms_are_set_replaced_listed_and_removed(database_url: str) -> None:
    async def story(store: GlossaryStore, clock: ManualClock) -> None:
        await store.set(RED, [Entry("en", "gate", "es", "puerta"), Entry("en", "Dragoman")])
        await store.set(RED, [Entry("EN", "gate", "ES", "puerta de embarque")])
        await store.set(BLUE, [Entry("en", "gate", "es", "portón")])
        found = [one.entry for one in await store.page(RED, 10)]
        assert found == [
            Entry("en", "Dragoman"),
            Entry("EN", "gate", "ES", "puerta de embarque"),
        ], "languages have no case, and are given back as they came"
        (first,) = await store.page(RED, 1)
        (second,) = await store.page(RED, 1, first.entry.key)
        assert second.entry.term == "gate"
        assert not await store.page(RED, 1, second.entry.key)
        assert [one.entry.term for one in await store.page(RED, 9, tgt_lang="es")] == ["gate"]
        await store.remove(RED, "en", "es", "gate")
        with pytest.raises(NotFound):
            await store.remove(RED, "en", "es", "gate")
        assert len(await store.page(BLUE, 10)) == 1

    on(database_url, story)


def test_a_tenant_has_no_more_terms_than_it_may_and_a_refused_request_sets_none(
    database_url: str,
) -> None:
    async def story(store: GlossaryStore, clock: ManualClock) -> None:
        await store.set(RED, [Entry("en", f"t{number}") for number in range(4)])
        with pytest.raises(QuotaExceeded, match="terms_per_tenant"):
            await store.set(RED, [Entry("en", "t4"), Entry("en", "t5")])
        assert len(await store.page(RED, 10)) == 4
        await store.set(RED, [Entry("en", "t3"), Entry("en", "t4"), Entry("en", "t4")])
        assert len(await store.page(RED, 10)) == 5

    on(database_url, story)


def test_an_instance_learns_what_another_changed(database_url: str) -> None:
    async def story(store: GlossaryStore, clock: ManualClock) -> None:
        here, there = Glossaries(store, RULES), Glossaries(store, RULES)
        await here.start()
        await there.start()
        try:
            assert RED not in there.by_tenant
            await store.set(RED, [Entry("en", "gate", "es", "puerta")])
            await there.refresh()
            (term,) = there.by_tenant[RED].terms((("en", "es"),), None)
            assert term.translation == "puerta"
            await store.remove(RED, "en", "es", "gate")
            await there.refresh()
            assert RED not in there.by_tenant
            await asyncio.gather(
                *(store.set(BLUE, [Entry("en", f"t{number}")]) for number in range(5))
            )
            await here.refresh()
            assert len(here.by_tenant[BLUE]) == 5
        finally:
            await here.stop()
            await there.stop()

    on(database_url, story)
