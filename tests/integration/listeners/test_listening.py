"""Others listen to a speaker's session: over real sockets, with keys, resumed, slow."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integration.lab_targets.fleets import PATIENCE_SECONDS, node_of, serving, until
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from dragoman.api import Server
from dragoman.auth import KeyStore, Role
from dragoman.clock import SystemClock
from dragoman.errors import DragomanError
from dragoman.live.gateway import CloseCode
from dragoman.randomness import Randomness
from dragoman.sdk import Answer, Job, SessionClient, TranslationResult, listen

LANGUAGES = {"nmt": ["en", "es", "de"], "tts": ["en", "es", "de"]}


async def translate(job: Job) -> Answer:
    return Answer(
        text_translated=f"{job.tgt_lang}: {job.text}", tts_audio=b"RIFF", tts_format="wav"
    )


def speaker(server: Server, **options: object) -> SessionClient:
    return SessionClient(server.url, src_lang="en", tgt_langs=["es", "de"], **options)  # type: ignore[arg-type]


def address(server: Server, session: SessionClient, query: str = "") -> str:
    return f"{server.url.replace('http', 'ws')}/ws/listen/{session.session_id}{query}"


async def heard(socket: ClientConnection) -> dict[str, object]:
    found: dict[str, object] = json.loads(await socket.recv())
    return found


async def closed(socket: ClientConnection) -> tuple[dict[str, object], int]:
    """The last message, and the code that the socket was closed with."""
    last: dict[str, object] = {}
    with suppress(ConnectionClosed):
        while True:
            last = await heard(socket)
    assert socket.close_code is not None
    return last, socket.close_code


def test_each_listener_reads_the_language_it_chose_until_the_session_is_over(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with serving(tmp_path) as server, node_of(server, translate, **LANGUAGES):
            texts: dict[str, list[str | None]] = {"es": [], "DE": []}
            joined = asyncio.Semaphore(0)

            async def follow(language: str) -> None:
                stream = listen(server.url, str(session.session_id), tgt_lang=language)
                async for result in stream:
                    assert isinstance(result, TranslationResult)
                    assert result.tts_audio is None
                    texts[language].append(result.text_translated)
                    joined.release()

            async with speaker(server) as session:
                following = [asyncio.create_task(follow(language)) for language in texts]
                found = server.services.connections
                await until(lambda: found.counts.get("listen") == 2)
                for number in range(3):
                    await session.say(f"sentence {number}")
                await session.close()
                _ = [result async for result in session.results()]
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*following)
        assert texts["es"] == [f"es: sentence {n}" for n in range(3)]
        assert texts["DE"] == [f"de: sentence {n}" for n in range(3)]

    asyncio.run(story())


def test_a_listener_that_was_away_goes_on_where_it_was_and_may_hear_the_speech(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with (
            serving(tmp_path) as server,
            node_of(server, translate, **LANGUAGES),
            speaker(
                server,
            ) as session,
        ):
            async with connect(address(server, session)) as socket:
                ack = await heard(socket)
                assert (ack["type"], ack["tgt_lang"]) == ("listen_ack", "es")
                await session.say("one")
                first = await heard(socket)
                assert first["text_translated"] == "es: one"
            await session.say("two")
            results = session.results()
            for _ in range(4):
                await anext(results)  # the speaker has acknowledged them, and the server let go
            query = f"?last_delivery_seq={first['delivery_seq']}&audio=true"
            async with connect(address(server, session, query)) as socket:
                ack = await heard(socket)
                assert ack["complete"] is True
                again = await heard(socket)
                assert again["text_translated"] == "es: two"
                assert again["tts_audio"] == "UklGRg=="
                await socket.send(json.dumps({"type": "client_heartbeat"}))
                await socket.send(json.dumps({"type": "session_close"}))
                assert (await heard(socket))["code"] == "INVALID_MESSAGE"

    asyncio.run(story())


def test_who_may_not_listen_is_told_why(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path, auth={"mode": "keys"}) as server:
            store = KeyStore(server.services.store, SystemClock(), Randomness().stream("keys"))
            made = [
                await store.create(role, tenant)
                for role, tenant in (
                    (Role.CLIENT, "acme"),
                    (Role.CLIENT, "other"),
                    (Role.OPERATOR, "ops"),
                    (Role.NODE, "acme"),
                )
            ]
            own, stranger, operator, node = (key.reveal() for _, key in made)
            async with (
                speaker(server, token=own) as session,
                speaker(server, token=own) as second,
            ):
                assert session.listen_token is not None
                refused = {
                    f"?token={second.listen_token}": ("UNAUTHORIZED", 4401),
                    f"?token={stranger}": ("INVALID_SESSION", 1008),
                    f"?token={session.listen_token}&tgt_lang=fr": ("INVALID_MESSAGE", 4400),
                    f"?token={session.listen_token}&audio=loud": ("INVALID_MESSAGE", 4400),
                    f"?token={session.listen_token}&last_delivery_seq=-1": (
                        "INVALID_MESSAGE",
                        4400,
                    ),
                }
                for query, expected in refused.items():
                    async with connect(address(server, session, query)) as socket:
                        last, code = await closed(socket)
                    assert (last["code"], code) == expected, last
                    if "fr" in query:
                        assert last["details"]["served"] == ["es", "de"]  # type: ignore[index]
                for query, expected_code in (("", 4401), (f"?token={node}", 4403)):
                    async with connect(address(server, session, query)) as socket:
                        assert (await closed(socket))[1] == expected_code
                for token in (session.listen_token, own, operator):
                    async with connect(address(server, session, f"?token={token}")) as socket:
                        assert (await heard(socket))["type"] == "listen_ack"
                # The token opens nothing else.
                plain = f"{server.url.replace('http', 'ws')}/ws/session"
                async with connect(f"{plain}?token={session.listen_token}") as socket:
                    assert (await closed(socket))[1] == 4401

            with pytest.raises(DragomanError, match="There is no session"):
                await anext(listen(server.url, "s-none", token=own))

    asyncio.run(story())


def test_a_listener_that_does_not_read_is_closed_and_harms_nobody(tmp_path: Path) -> None:
    speech = bytes(200_000)

    async def loud(job: Job) -> Answer:
        return Answer(text_translated=job.text, tts_audio=speech, tts_format="pcm16")

    async def story() -> None:
        limits = {"session_queue": 4, "session_queue_bytes": 1_000_000}
        async with (
            serving(tmp_path, limits=limits) as server,
            node_of(server, loud, **LANGUAGES),
            speaker(server) as session,
        ):
            query = "?audio=true"
            # Its buffers are small, and it never reads.
            slow = await connect(
                address(server, session, query), max_queue=1, max_size=None, write_limit=1
            )
            slow.transport.pause_reading()
            open_now = server.services.connections
            reading = asyncio.create_task(_count(address(server, session, query)))
            await until(lambda: open_now.counts.get("listen") == 2)
            known = list(open_now)
            sentences = 100
            for number in range(sentences):
                await session.say(f"sentence {number}")
                await session.next_result()
                await session.next_result()
            await until(lambda: open_now.counts.get("listen") == 1)
            ends = [one.end.code for one in known if one.end is not None]
            assert ends == [CloseCode.TOO_SLOW]
            await session.say("the last")
            await session.close()
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await reading == sentences + 1, "the other listener got every result"
            slow.transport.abort()

    asyncio.run(story())


async def _count(url: str) -> int:
    found = 0
    async with connect(url, max_size=None) as socket:
        async for frame in socket:
            found += json.loads(frame)["type"] == "translation_result"
    return found


def test_the_number_of_listeners_is_limited_by_a_setting(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            serving(tmp_path, limits={"listeners_per_session": 1}) as server,
            speaker(server) as session,
            connect(address(server, session)) as first,
        ):
            await heard(first)
            async with connect(address(server, session)) as second:
                last, code = await closed(second)
            assert (last["code"], code) == ("RATE_LIMITED", 4429)

    asyncio.run(story())
