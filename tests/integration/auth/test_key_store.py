"""Keys on record."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa
from tests.integration.auth.conftest import OpenKeys

from dragoman.auth import ApiKey, Role
from dragoman.clock import ManualClock
from dragoman.errors import InvalidMessage, NotFound
from dragoman.ids import KeyId
from dragoman.store import open_store


def test_a_key_is_found_again_with_its_role_tenant_and_node(open_keys: OpenKeys) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            record, key = await keys.create(Role.NODE, "acme", "node-7")
            principal = await keys.lookup(key)
            assert principal is not None
            assert (principal.key_id, principal.role) == (record.key_id, Role.NODE)
            assert (principal.tenant, principal.node_id) == ("acme", "node-7")
            assert await keys.lookup(ApiKey.generate()) is None

    asyncio.run(scenario())


def test_a_revoked_key_is_gone_and_stays_on_the_list(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            _, key = await keys.create(Role.CLIENT, "acme")
            clock.advance(1)
            other, _ = await keys.create(Role.OPERATOR, "acme")
            record = (await keys.list())[0]
            clock.advance(1)
            revoked = await keys.revoke(record.key_id)
            clock.advance(1)
            assert await keys.revoke(record.key_id) == revoked
            assert revoked.revoked_at_ms == record.created_at_ms + 2000
            assert await keys.lookup(key) is None
            assert await keys.list() == [revoked, other]

    asyncio.run(scenario())


def test_revoking_a_key_that_is_not_there_says_how_to_find_it(open_keys: OpenKeys) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            with pytest.raises(NotFound, match="dragoman keys list"):
                await keys.revoke("k-nothing")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("role", "tenant", "node_id"),
    [
        (Role.CLIENT, "acme", "node-7"),
        (Role.NODE, "", None),
        (Role.NODE, "two words", None),
        (Role.NODE, "x" * 129, None),
        (Role.NODE, "acme", "line\nbreak"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    open_keys: OpenKeys, role: Role, tenant: str, node_id: str | None
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            with pytest.raises(InvalidMessage):
                await keys.create(role, tenant, node_id)
            assert await keys.list() == []

    asyncio.run(scenario())


def test_the_keys_that_still_work_are_found_among_very_many(open_keys: OpenKeys) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            made = [(await keys.create(Role.CLIENT, "acme"))[0].key_id for _ in range(5)]
            await keys.revoke(made[2])
            asked = {*made, *(KeyId(f"k-{number}") for number in range(2000))}
            assert await keys.live_among(asked) == set(made) - {made[2]}
            assert await keys.live_among(set()) == set()

    asyncio.run(scenario())


def test_only_the_digest_reaches_the_database(open_keys: OpenKeys, database_url: str) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            _, key = await keys.create(Role.OPERATOR, "acme")
        async with await open_store(database_url) as store:
            rows = await store.read(lambda c: c.execute(sa.text("SELECT * FROM api_key")).all())
        stored = repr(rows)
        assert key.digest() in stored
        assert key.reveal() not in stored

    asyncio.run(scenario())
