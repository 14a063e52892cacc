"""``dragoman listen`` as it is typed."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from tests.integration.lab_targets.fleets import PATIENCE_SECONDS, node_of, serving, until
from tests.integration.listeners.test_listening import LANGUAGES, speaker, translate
from tests.integration.serve.server_process import DRAGOMAN, environment


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
