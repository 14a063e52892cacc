"""A key is replaced by another, and nothing that is connected with the old one breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.integration.serve.server_process import ServerProcess, environment, eventually, run
from tests.servers import fresh_database
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from dragoman.auth import DEFAULT_TENANT, KeyAuthenticator, KeyStore, OidcPerson, Role
from dragoman.auth.key_store import api_key
from dragoman.clock import ManualClock
from dragoman.errors import InvalidMessage, NotFound, Unauthorized
from dragoman.ids import KeyId
from dragoman.randomness import Randomness
from dragoman.sdk import Answer, Job, Node, SessionClient, TranslationResult
from dragoman.store import StoreConnection, open_store


def test_both_keys_work_until_the_overlap_is_over_and_then_the_old_one_ends(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = fresh_database("sqlite", request, tmp_path)

    async def scenario() -> None:
        clock = ManualClock()
        async with await open_store(url) as store:
            keys = KeyStore(store, clock, Randomness().stream("keys"))
            record, old = await keys.create(Role.NODE, "acme", "n-1")
            made, new = await keys.rotate(record.key_id, overlap_seconds=60)
            assert (made.role, made.tenant, made.node_id) == (Role.NODE, "acme", "n-1")
            assert made.replaces == record.key_id
            authenticator = KeyAuthenticator(keys, clock, failures_per_minute=5)
            holder = await authenticator.authenticate(old, "192.0.2.1")
            successor = await authenticator.authenticate(new, "192.0.2.1")
            assert (holder.key_id, successor.key_id) == (record.key_id, made.key_id)
            ended: list[str] = []
            authenticator.watch(holder, lambda: ended.append("old"))
            authenticator.watch(successor, lambda: ended.append("new"))
            clock.advance(59)
            await authenticator.refresh()
            assert ended == []
            clock.advance(1)
            await authenticator.refresh()
            assert ended == ["old"]
            with pytest.raises(Unauthorized):
                await authenticator.authenticate(old, "192.0.2.1")
            await authenticator.authenticate(new, "192.0.2.1")
            listed = {one.key_id: one for one in await keys.list()}
            assert listed[record.key_id].expires_at_ms == record.created_at_ms + 60_000
            assert listed[made.key_id].expires_at_ms is None

    asyncio.run(scenario())


def test_only_a_key_that_works_and_has_no_successor_is_rotated(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = fresh_database("sqlite", request, tmp_path)

    async def scenario() -> None:
        clock = ManualClock()
        async with await open_store(url) as store:
            keys = KeyStore(store, clock, Randomness().stream("keys"))
            record, _ = await keys.create(Role.CLIENT, "acme")
            made, _ = await keys.rotate(record.key_id, 60)
            with pytest.raises(InvalidMessage, match="already"):
                await keys.rotate(record.key_id, 60)
            await keys.revoke(made.key_id)
            with pytest.raises(InvalidMessage, match="revoked"):
                await keys.rotate(made.key_id, 60)
            with pytest.raises(NotFound):
                await keys.rotate("k-none", 60)

    asyncio.run(scenario())


def test_a_person_of_the_provider_is_not_rotated_which_would_lock_them_out(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = fresh_database("sqlite", request, tmp_path)

    async def scenario() -> None:
        clock = ManualClock()
        async with await open_store(url) as store:
            keys = KeyStore(store, clock, Randomness().stream("keys"))
            await keys.sign_in_person(
                KeyId("oidc-abc"), Role.OPERATOR, DEFAULT_TENANT, clock.now_ms() + 60_000
            )
            with pytest.raises(InvalidMessage, match="keys revoke"):
                await keys.rotate("oidc-abc", 60)
            assert [one.key_id for one in await keys.list()] == ["oidc-abc"]

    asyncio.run(scenario())


def test_a_person_who_was_rotated_by_an_earlier_version_signs_in_again(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = fresh_database("sqlite", request, tmp_path)

    async def scenario() -> None:
        clock = ManualClock()
        async with await open_store(url) as store:
            keys = KeyStore(store, clock, Randomness().stream("keys"))
            person = OidcPerson(KeyId("oidc-abc"), "mara", Role.OPERATOR, DEFAULT_TENANT)
            authenticator = KeyAuthenticator(keys, clock, failures_per_minute=5)
            await authenticator.sign_in_person(person)
            for wait_seconds in (0, 2):  # before the overlap is over, and after
                expires_at_ms = clock.now_ms() + 1000

                def rotate(connection: StoreConnection, at_ms: int = expires_at_ms) -> None:
                    connection.execute(sa.update(api_key).values(expires_at_ms=at_ms))

                await store.write(rotate)
                clock.advance(wait_seconds)
                token = (await authenticator.sign_in_person(person)).token
                clock.advance(2)
                found = await authenticator.authenticate(token, "192.0.2.1")
                assert found.key_id == "oidc-abc"

    asyncio.run(scenario())


# --- a real server --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("rotation") / "data", env=env) as running:
        yield running


def keys(server: ServerProcess, *arguments: str) -> Any:
    code, output, errors = run("keys", *arguments, "--json", "--data-dir", server.data_dir)
    assert code == 0, errors
    return json.loads(output)


async def shout(job: Job) -> Answer:
    return Answer(text_translated=(job.text or "").upper())


def test_a_session_and_a_node_go_on_while_their_keys_are_rotated(server: ServerProcess) -> None:
    speaker, worker = (keys(server, "create", "--role", role) for role in ("client", "node"))

    async def said(session: SessionClient, text: str) -> str | None:
        await session.say(text)
        result = await session.next_result()
        assert isinstance(result, TranslationResult)
        return result.text_translated

    async def scenario() -> None:
        node = Node(server.url, token=worker["key"], work=shout, nmt=["en", "es"])
        languages: dict[str, Any] = {"src_lang": "en", "tgt_lang": "es"}
        serving = asyncio.create_task(node.serve())
        try:
            await node_is_ready()
            async with SessionClient(server.url, token=speaker["key"], **languages) as session:
                assert await said(session, "before") == "BEFORE"
                for old in (speaker, worker):
                    made = await asyncio.to_thread(
                        keys, server, "rotate", old["key_id"], "--overlap", "24h"
                    )
                    assert made["replaced"]["expires_at"] is not None
                    old["successor"] = made
                # The server looks at its keys again every three seconds.
                refreshed = await asyncio.to_thread(refused_within_one_look)
                assert refreshed
                assert await said(session, "after") == "AFTER"
                new_key = speaker["successor"]["key"]
                async with SessionClient(server.url, token=new_key, **languages) as other:
                    assert await said(other, "new key") == "NEW KEY"
            async with SessionClient(server.url, token=speaker["key"], **languages) as again:
                assert await said(again, "old key") == "OLD KEY"
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def node_is_ready() -> None:
        operator = keys(server, "create", "--role", "operator")["key"]
        await asyncio.to_thread(
            eventually,
            lambda: '"READY"' in server.get("/api/v1/nodes", operator).text.upper(),
            "the node is ready",
        )

    def refused_within_one_look() -> bool:
        """A key revoked after the rotation is refused: the server has looked since."""
        other = keys(server, "create", "--role", "client")
        assert server.get("/api/v1/jobs", other["key"]).status_code == 200
        keys(server, "revoke", other["key_id"])
        eventually(
            lambda: server.get("/api/v1/jobs", other["key"]).status_code == 401, "it is refused"
        )
        return True

    asyncio.run(scenario())
    listed = {one["key_id"]: one for one in keys(server, "list")}
    assert listed[speaker["successor"]["key_id"]]["replaces"] == speaker["key_id"]
    assert listed[speaker["key_id"]]["expires_at"] is not None


def test_when_the_overlap_is_over_the_sockets_of_the_old_key_are_closed_and_no_others(
    server: ServerProcess,
) -> None:
    old = keys(server, "create", "--role", "client")
    url = server.url.replace("http", "ws") + "/ws/session?token="
    hello = '{"type": "session_init", "src_lang": "en", "tgt_lang": "es"}'
    with connect(url + old["key"]) as before:
        before.send(hello)
        before.recv(60)
        new = keys(server, "rotate", old["key_id"], "--overlap", "1s")
        with connect(url + new["key"]) as after:
            after.send(hello)
            after.recv(60)
            with pytest.raises(ConnectionClosed):
                before.recv(60)
            assert before.close_code == 4401
            after.ping().wait(60)
            assert after.close_code is None
    headers = {"Authorization": f"Bearer {old['key']}"}
    assert httpx.get(f"{server.url}/api/v1/jobs", headers=headers, timeout=60).status_code == 401


@pytest.mark.parametrize("overlap", ["soon", "0h", "-1h", "9999d"])
def test_an_overlap_that_is_no_time_is_refused(server: ServerProcess, overlap: str) -> None:
    arguments = ("rotate", "k-1", f"--overlap={overlap}", "--data-dir", server.data_dir)
    code, _, errors = run("keys", *arguments)
    assert code == 2
    assert "24h" in errors
