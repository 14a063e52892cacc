"""What is deployed fits the program: settings that exist, commands that exist, times that agree."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.servers import require_program
from tests.unit.deploy.files import (
    DEPLOY,
    DOCKERFILE,
    REPOSITORY,
    check_command,
    compose_file,
    settings_of,
)

from dragoman.api.server import GOODBYE_SECONDS
from dragoman.settings import Settings

CLUSTER = DEPLOY / "cluster"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
INSTANCES = ("one", "two", "three")
PASSWORD = re.compile(r"\$\{[A-Z]+_PASSWORD:\?set it\}")
"""Where compose puts a password, and refuses to start without one."""


def compose() -> dict[str, Any]:
    return compose_file(CLUSTER / "compose.yaml")


def instance_settings(name: str) -> Settings:
    """What an instance of the compose file runs with."""
    environ = {
        variable: PASSWORD.sub("secret", value)
        for variable, value in compose()["services"][name]["environment"].items()
    }
    return settings_of(environ, CLUSTER / "dragoman.toml")


def unit_lines(unit: Path) -> list[tuple[str, str]]:
    lines = (line for line in unit.read_text().splitlines() if line and line[0] not in "#[")
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


@pytest.mark.parametrize("name", INSTANCES)
def test_an_instance_is_given_settings_that_exist_and_do_not_contradict(name: str) -> None:
    settings = instance_settings(name)

    assert settings.cluster.enabled
    assert settings.cluster.instance_id == name
    assert settings.store.database_url.startswith("postgresql://")


@pytest.mark.parametrize("name", INSTANCES)
def test_an_instance_is_started_by_a_command_that_exists(name: str) -> None:
    service = compose()["services"][name]
    check_command(service["command"])
    assert service["command"][-1] == "/etc/dragoman/dragoman.toml"
    assert service["volumes"] == ["./dragoman.toml:/etc/dragoman/dragoman.toml:ro"]


def test_instances_are_found_by_the_names_they_go_by() -> None:
    services = compose()["services"]
    servers = [
        words[1:]
        for words in (line.split() for line in (CLUSTER / "haproxy.cfg").read_text().splitlines())
        if words[:1] == ["server"]
    ]

    assert servers == [[name, f"{name}:8080"] for name in INSTANCES]
    assert [services[name]["hostname"] for name in INSTANCES] == list(INSTANCES)


@pytest.mark.parametrize("name", INSTANCES)
def test_an_instance_has_time_to_drain(name: str) -> None:
    grace_seconds = int(compose()["services"][name]["stop_grace_period"].removesuffix("s"))
    server = instance_settings(name).server

    assert grace_seconds > (server.drain_delay_seconds + server.drain_seconds + 2 * GOODBYE_SECONDS)


def test_the_proxy_notices_that_an_instance_leaves_while_it_still_takes_callers() -> None:
    (checks,) = (
        line.split()
        for line in (CLUSTER / "haproxy.cfg").read_text().splitlines()
        if line.split()[:2] == ["default-server", "check"]
    )
    options = dict(zip(checks[2::2], checks[3::2], strict=True))
    interval_seconds = float(options["inter"].removesuffix("s"))

    # The first check that fails may take an interval to come, each further one less.
    noticed_seconds = interval_seconds * int(options["fall"])
    for name in INSTANCES:
        assert noticed_seconds < instance_settings(name).server.drain_delay_seconds


def test_what_runs_in_the_containers_is_all_there() -> None:
    services = compose()["services"]
    build = services["one"]["build"]
    assert (CLUSTER / build["context"]).resolve() == REPOSITORY
    assert REPOSITORY / build["dockerfile"] == DOCKERFILE
    assert "appendonly" in str(services["redis"]["command"])
    assert "noeviction" in str(services["redis"]["command"])
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in compose()["volumes"] or (CLUSTER / source).is_file()


def test_redis_wants_the_password_that_the_instances_have(tmp_path: Path) -> None:
    """The compose file's own command, with a program of ours in place of the image's."""
    service = compose()["services"]["redis"]
    assert PASSWORD.fullmatch(service["environment"]["REDISCLI_AUTH"])
    told = tmp_path / "docker-entrypoint.sh"
    told.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    told.chmod(0o700)
    command = [word.replace("$$", "$") for word in service["command"]]
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "REDISCLI_AUTH": "two words"}
    words = subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout
    assert words.splitlines()[:3] == ["redis-server", "--requirepass", "two words"]
    for name in INSTANCES:
        assert instance_settings(name).cluster.redis_url == "redis://:secret@redis:6379"


def test_the_proxy_leaves_sockets_open_longer_than_their_heartbeats() -> None:
    config = (CLUSTER / "haproxy.cfg").read_text()

    assert "timeout tunnel 1h" in config
    assert "option httpchk GET /readyz" in config
    assert "http-check send hdr Host localhost" in config
    assert "shutdown-sessions" not in config


def test_haproxy_takes_its_configuration_and_notices_a_mistake(tmp_path: Path) -> None:
    config = CLUSTER / "haproxy.cfg"
    mistaken = tmp_path / "haproxy.cfg"
    mistaken.write_text(config.read_text().replace("balance leastconn", "balance leastcon"))

    assert check_with_haproxy(config).returncode == 0
    assert "leastconn" in check_with_haproxy(mistaken).stderr


def check_with_haproxy(config: Path) -> subprocess.CompletedProcess[str]:
    # The names of the containers are known nowhere else; haproxy goes on without their addresses.
    command = [require_program("haproxy"), "-c", "-f", str(config)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_redis_cluster_example_is_good_settings() -> None:
    settings = settings_of({}, CLUSTER / "redis-cluster.toml")

    assert settings.cluster.redis_cluster


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_calls_a_command_that_exists(unit: Path) -> None:
    (command,) = (value for key, value in unit_lines(unit) if key == "ExecStart")
    program, *words = shlex.split(command.replace("$OPTIONS", "--slots 4 --asr zh,en --tts zh,en"))

    assert Path(program).name == "dragoman"
    check_command(words)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_gives_time_to_end_and_no_rights_it_does_not_need(unit: Path) -> None:
    lines = dict(unit_lines(unit))

    assert int(lines["TimeoutStopSec"]) > Settings().server.drain_seconds + 2 * GOODBYE_SECONDS
    assert lines["Restart"] == "on-failure"
    assert lines["NoNewPrivileges"] == "yes"
    assert lines["ProtectSystem"] == "strict"
    assert lines["CapabilityBoundingSet"] == ""
    assert lines.get("User") == "dragoman" or lines.get("DynamicUser") == "yes"


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(AssertionError, match="no command service"):
        check_command(["service"])
    with pytest.raises(Exception, match="No such option: --prot"):
        check_command(["serve", "--prot", "1"])
