"""``dragoman node`` as a node owner types it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
import typer
from tests.integration.sdk.sockets import free_port, node_command, program, scheduling
from tests.unit.sdk.scheduler import NODE_KEY
from typer.testing import CliRunner

from dragoman.cli.node import node
from dragoman.errors import SettingsError
from dragoman.live.protocol import JobResult, NodeHeartbeat, NodeRegister, SubProtocol


def test_the_command_registers_says_so_once_and_does_jobs() -> None:
    async def scenario() -> None:
        flags = ("--profile", "instant", "--slots", "3", "--nmt", "en,es", "--node-id", "n-7")
        async with (
            scheduling(keys_required=True) as (scheduler, url),
            program(
                *node_command("--url", url, "--json", *flags), DRAGOMAN_TOKEN=NODE_KEY.reveal()
            ) as process,
        ):
            await scheduler.hears(NodeHeartbeat)
            [register] = scheduler.all(NodeRegister)
            assert (register.node_id, register.max_concurrent_jobs) == ("n-7", 3)
            assert register.languages.nmt_langs == ("en", "es")
            assert register.languages.asr_langs == ()
            assert scheduler.connections[0].sub is SubProtocol.JSON
            scheduler.assign("a", text="good morning")
            [result] = await scheduler.hears(JobResult)
            assert result.text_translated == "[es, simulated] good morning"
            process.send_signal(signal.SIGTERM)
            out, err = await process.communicate()
            assert process.returncode == 0
            said = f"Node n-7 is connected to {url}/ws/node: 3 slots, nmt en es; 2 pools, cell 0\n"
            assert (out.decode(), err.decode()) == (said, "")

    asyncio.run(scenario())


def test_a_scheduler_that_is_not_there_yet_is_waited_for_and_that_is_said_once() -> None:
    async def scenario() -> None:
        port = free_port()
        url = f"ws://127.0.0.1:{port}"
        async with program(*node_command("--url", url, "--seed", "1")) as process:
            assert process.stderr is not None
            async with asyncio.timeout(60):
                first = await process.stderr.readline()
            assert f"Cannot register at {url}/ws/node" in first.decode()
            assert "Trying again" in first.decode()
            async with scheduling(port=port) as (scheduler, _):
                await scheduler.hears(NodeHeartbeat)
                [register] = scheduler.all(NodeRegister)
                assert register.languages.tts_langs == ("en", "es", "zh")
                process.send_signal(signal.SIGTERM)
                _, err = await process.communicate()
            assert b"Trying again" not in err
            assert process.returncode == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("languages", ["en,,es", "e", "english language"])
def test_a_bad_list_of_languages_is_bad_usage(languages: str) -> None:
    app = typer.Typer()
    app.command()(node)
    result = CliRunner().invoke(app, ["--url", "ws://127.0.0.1:1", "--nmt", languages])
    assert result.exit_code == 2
    assert "language" in result.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--url", "ftp://127.0.0.1:1"], "write it like ws://"),
        (["--url", "ws://127.0.0.1:1", "--engine", "magic"], "known are simulated"),
        (["--url", "ws://127.0.0.1:1", "--profile", "lazy"], "known are steady"),
    ],
)
def test_other_bad_flags_are_settings_errors(flags: list[str], says: str) -> None:
    app = typer.Typer()
    app.command()(node)
    result = CliRunner().invoke(app, flags)
    assert isinstance(result.exception, SettingsError)
    assert says in result.exception.message


def test_options_may_stand_in_a_file_and_those_of_the_command_win(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scheduling() as (scheduler, url):
            file = tmp_path / "node.toml"
            file.write_text(f'url = "{url}"\nslots = 4\nnode_id = "filed"\nnmt = ["en", "fr"]\n')
            async with program(*node_command("--config", str(file), "--slots", "2")):
                await scheduler.hears(NodeHeartbeat)
            [register] = scheduler.all(NodeRegister)
            assert (register.node_id, register.max_concurrent_jobs) == ("filed", 2)
            assert register.languages.nmt_langs == ("en", "fr")
            assert register.languages.tts_langs == ()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("content", "says"),
    [("slotz = 2", "slotz"), ("slots = 'two'", "slots"), ("slots =", "node.toml")],
)
def test_a_bad_file_of_options_is_named_with_the_key(
    tmp_path: Path, content: str, says: str
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(content)
    app = typer.Typer()
    app.command()(node)
    result = CliRunner().invoke(app, ["--config", str(file)])
    assert isinstance(result.exception, SettingsError)
    assert says in result.exception.message
    assert str(file) in result.exception.message


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("tts", "is not an option of a stage"),
        ("tts.engine", "is not an option of a stage"),
        ("tone.engine=x", "one of asr, semantic, nmt, tts"),
    ],
)
def test_a_bad_option_of_a_stage_is_bad_usage(flag: str, says: str) -> None:
    app = typer.Typer()
    app.command()(node)
    result = CliRunner().invoke(app, ["--url", "ws://127.0.0.1:1", "--set", flag])
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.replace("│", " ").split())


def test_stages_are_chosen_in_a_file_and_by_flags_which_win(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scheduling() as (scheduler, url):
            file = tmp_path / "node.toml"
            file.write_text(
                f'url = "{url}"\nengine = "simulated"\n[engines.simulated]\nprofile = "instant"\n'
                '[stages.semantic]\nengine = "none"\n[stages.tts]\nprofile = "slow"\nseed = 3\n'
            )
            flags = ("--set", "tts.profile=steady", "--set", "tts.engine=simulated")
            async with program(*node_command("--config", str(file), *flags)):
                await scheduler.hears(NodeHeartbeat)
                scheduler.assign("a", text="good morning")
                [result] = await scheduler.hears(JobResult)
            [register] = scheduler.all(NodeRegister)
            assert [service.service_id for service in register.services] == [
                "simulated-asr",
                "simulated-nmt",
                "simulated-tts",
            ]
            assert register.languages.semantic_langs == ()
            assert result.text_translated == "[es, simulated] good morning"
            assert result.timings is not None
            assert result.timings.nmt_ms is not None
            assert result.timings.tts_ms is None

    asyncio.run(scenario())
