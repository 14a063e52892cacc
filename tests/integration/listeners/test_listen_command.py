"""``dragoman listen`` as it is typed."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest
from tests.integration.lab_targets.fleets import PATIENCE_SECONDS, node_of, serving, until
from tests.integration.listeners.test_listening import LANGUAGES, speaker, translate
from tests.integration.serve.server_process import DRAGOMAN, environment
from websockets.asyncio.server import ServerConnection, serve

from dragoman.sdk import Unreachable, listen


async def listening(folder: Path, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        DRAGOMAN, "listen", *arguments, cwd=folder, stdout=PIPE, stderr=PIPE, env=environment()
    )


def test_the_command_prints_each_result_and_ends_with_the_session(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            serving(tmp_path / "data") as server,
            node_of(server, translate, **LANGUAGES),
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            async with speaker(server) as session:
                named = (str(session.session_id), "--url", server.url)
                plain = await listening(tmp_path, *named, "--to", "de", "--out", "speech")
                as_json = await listening(tmp_path, *named, "--json")
                found = server.services.connections
                await until(lambda: found.counts.get("listen") == 2)
                await session.say("hello")
                await session.close()
            printed, problems = await plain.communicate()
            assert plain.returncode == 0, problems
            assert printed.decode() == "0  de: hello\n"
            assert (tmp_path / "speech" / "0.wav").read_bytes() == b"RIFF"
            printed, problems = await as_json.communicate()
            assert json.loads(printed)["text_translated"] == "es: hello"
            refused = await listening(tmp_path, "s-none", "--url", server.url)
            _, problems = await refused.communicate()
            assert refused.returncode == 1
            assert "There is no session s-none" in problems.decode()
            assert "Traceback" not in problems.decode()

    asyncio.run(story())


def test_a_server_that_is_not_there_is_named_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            refused = await listening(tmp_path, "s-1", "--url", "ws://127.0.0.1:1")
            _, problems = await refused.communicate()
        assert refused.returncode == 1
        told = problems.decode()
        assert told.startswith("error: ws://127.0.0.1:1/ws/listen/s-1 cannot be reached: ")
        assert told.endswith("; is the scheduler running?\n")

    asyncio.run(story())


def test_a_listener_that_lost_its_session_says_so_with_the_address() -> None:
    async def story() -> None:
        came = asyncio.Event()

        async def hang_up(socket: ServerConnection) -> None:
            came.set()

        async with asyncio.timeout(PATIENCE_SECONDS):
            server = await serve(hang_up, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            url = f"ws://127.0.0.1:{port}"
            results = listen(url, "s-1", reconnect_seconds=0.0)
            first = asyncio.ensure_future(anext(results))
            await came.wait()
            with pytest.raises(Unreachable, match=f"within 0 s: .*{port}"):
                await first
            server.close()
            await server.wait_closed()

    asyncio.run(story())
