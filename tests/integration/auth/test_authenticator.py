"""Who is let in, who is not, and how soon a revoked key stops working."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Collection
from logging.handlers import QueueHandler
from pathlib import Path
from random import Random

import pytest
from tests.integration.auth.conftest import OpenKeys

from dragoman.auth import (
    ApiKey,
    KeyAuthenticator,
    KeyStore,
    OpenAuthenticator,
    Principal,
    Role,
)
from dragoman.auth.authenticator import CACHE_SECONDS, REFRESH_SECONDS
from dragoman.clock import ManualClock, SystemClock
from dragoman.errors import RateLimited, StoreError, Unauthorized
from dragoman.store import open_store

ADDRESS = "10.0.0.1"
PROMISED_SECONDS = 10


def fail() -> None:
    raise RuntimeError("a socket that cannot be closed")


def authenticator_of(keys: KeyStore, clock: ManualClock) -> KeyAuthenticator:
    """One that looks again only when the test says so."""
    return KeyAuthenticator(keys, clock, failures_per_minute=5)


def test_a_good_key_is_let_in_and_a_wrong_or_missing_one_is_not(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = authenticator_of(keys, clock)
            record, key = await keys.create(Role.CLIENT, "acme")
            for _ in range(2):
                principal = await authenticator.authenticate(key, ADDRESS)
                assert (principal.key_id, principal.tenant) == (record.key_id, "acme")
            for wrong in (ApiKey.generate(), ApiKey("nonsense"), ApiKey(key.reveal()[:-1])):
                with pytest.raises(Unauthorized, match="wrong or was revoked"):
                    await authenticator.authenticate(wrong, ADDRESS)
            with pytest.raises(Unauthorized, match="Authorization: Bearer"):
                await authenticator.authenticate(None, ADDRESS)

    asyncio.run(scenario())


def test_in_open_mode_everyone_is_an_operator_whatever_they_show() -> None:
    async def scenario() -> None:
        async with OpenAuthenticator() as authenticator:
            for key in (None, ApiKey("nonsense"), ApiKey.generate()):
                principal = await authenticator.authenticate(key, ADDRESS)
                assert principal.anonymous
                assert (principal.role, principal.tenant) == (Role.OPERATOR, "default")
            authenticator.watch(principal, lambda: None)()

    asyncio.run(scenario())


def test_wrong_keys_from_one_address_are_limited_and_others_are_not_locked_out(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = authenticator_of(keys, clock)
            _, key = await keys.create(Role.CLIENT, "acme")
            await authenticator.authenticate(key, ADDRESS)
            attempts = [authenticator.authenticate(ApiKey.generate(), ADDRESS) for _ in range(20)]
            refusals = await asyncio.gather(*attempts, return_exceptions=True)
            assert [type(refusal) for refusal in refusals].count(Unauthorized) == 5
            assert [type(refusal) for refusal in refusals].count(RateLimited) == 15
            with pytest.raises(RateLimited) as limited:
                await authenticator.authenticate(ApiKey.generate(), ADDRESS)
            assert limited.value.retry_after_ms == 12_000
            # Whoever was let in a moment ago, and whoever comes from elsewhere, still is.
            await authenticator.authenticate(key, ADDRESS)
            await authenticator.authenticate(key, "10.0.0.2")
            clock.advance(12)
            with pytest.raises(Unauthorized):
                await authenticator.authenticate(ApiKey.generate(), ADDRESS)

    asyncio.run(scenario())


def test_a_good_key_is_let_in_from_an_address_where_many_have_failed(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = authenticator_of(keys, clock)
            _, key = await keys.create(Role.CLIENT, "acme")
            for wrong in (ApiKey.generate, lambda: ApiKey("nonsense")):
                for _ in range(20):
                    with pytest.raises((Unauthorized, RateLimited)):
                        await authenticator.authenticate(wrong(), ADDRESS)
            principal = await authenticator.authenticate(key, ADDRESS)
            assert principal.tenant == "acme"
            for wrong in (ApiKey.generate, lambda: ApiKey("nonsense")):
                with pytest.raises(RateLimited):
                    await authenticator.authenticate(wrong(), ADDRESS)

    asyncio.run(scenario())


class CountingStore(KeyStore):
    """Counts how often the database is read for keys, and how often at once."""

    reads = 0
    at_once = 0
    most_at_once = 0

    async def holders(self, digests: Collection[str]) -> dict[str, Principal]:
        self.reads += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await super().holders(digests)
        finally:
            self.at_once -= 1


def test_many_wrong_keys_at_once_cost_the_database_few_reads(
    database_url: str, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with await open_store(database_url) as store:
            keys = CountingStore(store, clock, Random(1))
            authenticator = authenticator_of(keys, clock)
            _, good = await keys.create(Role.CLIENT, "acme")
            tried = [ApiKey.generate() for _ in range(2_000)]
            attempts = [authenticator.authenticate(key, ADDRESS) for key in (*tried, good, good)]
            *refusals, first, second = await asyncio.gather(*attempts, return_exceptions=True)
            assert {type(refusal) for refusal in refusals} == {Unauthorized, RateLimited}
            assert isinstance(first, Principal)
            assert first == second
            assert keys.most_at_once == 1
            assert keys.reads <= 6

    asyncio.run(scenario())


def test_an_asker_that_leaves_takes_no_answer_from_others(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = authenticator_of(keys, clock)
            _, key = await keys.create(Role.CLIENT, "acme")
            leaving = asyncio.create_task(authenticator.authenticate(key, ADDRESS))
            staying = asyncio.create_task(authenticator.authenticate(key, ADDRESS))
            await asyncio.sleep(0)
            leaving.cancel()
            assert (await staying).tenant == "acme"

    asyncio.run(scenario())


def test_a_revoked_key_stops_working_at_the_next_look(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = authenticator_of(keys, clock)
            record, key = await keys.create(Role.CLIENT, "acme")
            _, other = await keys.create(Role.CLIENT, "acme")
            for held in (key, other):
                await authenticator.authenticate(held, ADDRESS)
            await keys.revoke(record.key_id)
            await authenticator.refresh()
            with pytest.raises(Unauthorized):
                await authenticator.authenticate(key, ADDRESS)
            await authenticator.authenticate(other, ADDRESS)

    asyncio.run(scenario())


def test_a_verified_key_is_not_believed_for_long_without_another_look(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = authenticator_of(keys, clock)
            record, key = await keys.create(Role.CLIENT, "acme")
            await authenticator.authenticate(key, ADDRESS)
            await keys.revoke(record.key_id)
            clock.advance(CACHE_SECONDS)
            with pytest.raises(Unauthorized):
                await authenticator.authenticate(key, ADDRESS)

    asyncio.run(scenario())


def test_both_ways_of_noticing_are_sooner_than_promised() -> None:
    assert 2 * REFRESH_SECONDS < PROMISED_SECONDS
    assert CACHE_SECONDS < PROMISED_SECONDS


def test_every_socket_of_a_revoked_key_is_told_once_and_no_other(
    open_keys: OpenKeys, clock: ManualClock
) -> None:
    async def scenario() -> None:
        async with open_keys() as keys:
            authenticator = authenticator_of(keys, clock)
            record, key = await keys.create(Role.CLIENT, "acme")
            _, other_key = await keys.create(Role.CLIENT, "acme")
            principal = await authenticator.authenticate(key, ADDRESS)
            other = await authenticator.authenticate(other_key, ADDRESS)
            told: list[str] = []
            authenticator.watch(principal, lambda: told.append("first"))
            authenticator.watch(principal, fail)
            authenticator.watch(principal, lambda: told.append("second"))
            stop = authenticator.watch(principal, lambda: told.append("gone by itself"))
            authenticator.watch(other, lambda: told.append("other"))
            stop()
            stop()
            # Long after the key was last shown, its sockets are still looked after.
            for _ in range(3):
                clock.advance(REFRESH_SECONDS)
                await authenticator.refresh()
            await keys.revoke(record.key_id)
            await authenticator.refresh()
            await authenticator.refresh()
            assert told == ["first", "second"]

    asyncio.run(scenario())


def test_a_key_revoked_by_another_process_closes_the_socket(
    open_keys: OpenKeys, settings_file: Path
) -> None:
    program = "import sys; from dragoman.cli.keys import app; app(sys.argv[1:])"
    command = [sys.executable, "-c", program]

    async def scenario() -> None:
        async with open_keys() as keys:
            record, key = await keys.create(Role.CLIENT, "acme")
            async with KeyAuthenticator(
                keys, SystemClock(), failures_per_minute=30, refresh_seconds=0.05
            ) as authenticator:
                principal = await authenticator.authenticate(key, ADDRESS)
                told = asyncio.Event()
                authenticator.watch(principal, told.set)
                await asyncio.to_thread(
                    subprocess.run,
                    [*command, "revoke", record.key_id, "--config", str(settings_file)],
                    check=True,
                    capture_output=True,
                )
                async with asyncio.timeout(PROMISED_SECONDS):
                    await told.wait()
                with pytest.raises(Unauthorized):
                    await authenticator.authenticate(key, ADDRESS)

    asyncio.run(scenario())


def test_a_database_that_is_away_lets_no_new_key_in_and_is_tried_again(
    database_url: str, clock: ManualClock
) -> None:
    async def scenario() -> None:
        warnings: asyncio.Queue[logging.LogRecord] = asyncio.Queue()
        handler = QueueHandler(warnings)
        log = logging.getLogger("dragoman.auth")
        log.addHandler(handler)
        try:
            async with await open_store(database_url) as store:
                keys = KeyStore(store, clock, Random(1))
                _, key = await keys.create(Role.CLIENT, "acme")
                async with KeyAuthenticator(
                    keys, clock, failures_per_minute=5, refresh_seconds=0.001
                ) as authenticator:
                    principal = await authenticator.authenticate(key, ADDRESS)
                    authenticator.watch(principal, fail)
                    await store.close()
                    clock.advance(CACHE_SECONDS)
                    with pytest.raises(StoreError):
                        await authenticator.authenticate(key, ADDRESS)
                    for _ in range(2):
                        async with asyncio.timeout(PROMISED_SECONDS):
                            warning = await warnings.get()
                        assert warning.getMessage() == "keys_not_read"
        finally:
            log.removeHandler(handler)

    asyncio.run(scenario())
