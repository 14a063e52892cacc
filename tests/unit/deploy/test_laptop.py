"""The laptop's compose file fits the program, its image, and what watches it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
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
from dragoman.errors import SettingsError
from dragoman.settings import Settings

LAPTOP = DEPLOY / "laptop"
OURS = ("server", "node-one", "node-two")


def services() -> dict[str, Any]:
    found: dict[str, Any] = compose_file(LAPTOP / "compose.yaml")["services"]
    return found


def server_settings() -> Settings:
    return settings_of(services()["server"]["environment"])


def test_it_is_all_there() -> None:
    assert set(services()) == {*OURS, "redis", "postgres", "prometheus", "grafana"}


def test_the_server_is_given_settings_that_exist_and_do_not_contradict() -> None:
    settings = server_settings()

    assert settings.cluster.redis_url == "redis://redis:6379"
    assert settings.lab.queue_url == settings.cluster.redis_url
    postgres = services()["postgres"]["environment"]
    assert settings.store.database_url == (
        f"postgresql://{postgres['POSTGRES_USER']}:{postgres['POSTGRES_PASSWORD']}"
        f"@postgres/{postgres['POSTGRES_DB']}"
    )


def test_a_variable_that_is_no_setting_is_noticed() -> None:
    environ = {**services()["server"]["environment"], "DRAGOMAN_SERVER__PROT": "1"}
    with pytest.raises(SettingsError, match="DRAGOMAN_SERVER__PROT"):
        settings_of(environ)


@pytest.mark.parametrize("name", ["node-one", "node-two"])
def test_a_node_is_started_by_a_command_that_exists_and_finds_the_server(name: str) -> None:
    command = services()[name]["command"]

    check_command(command)
    assert command[command.index("--url") + 1] == "ws://server:8080"
    assert command[command.index("--node-id") + 1] == name


def test_the_server_answers_to_the_name_that_the_others_ask_for() -> None:
    """In open mode it answers to no name but that of its machine."""
    assert services()["server"]["hostname"] == "server"


def test_only_this_machine_reaches_what_needs_no_key() -> None:
    for name, service in services().items():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


@pytest.mark.parametrize("name", OURS)
def test_a_container_has_a_read_only_root_and_no_rights_it_does_not_need(name: str) -> None:
    service = services()[name]

    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_server_has_time_to_drain() -> None:
    grace_seconds = int(services()["server"]["stop_grace_period"].removesuffix("s"))
    server = server_settings().server

    assert grace_seconds > server.drain_delay_seconds + server.drain_seconds + 2 * GOODBYE_SECONDS


def test_what_is_mounted_is_all_there() -> None:
    volumes = compose_file(LAPTOP / "compose.yaml")["volumes"]
    for service in services().values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in volumes or (LAPTOP / source).exists(), source
    build = services()["server"]["build"]
    assert (LAPTOP / build["context"]).resolve() == REPOSITORY
    assert REPOSITORY / build["dockerfile"] == DOCKERFILE


def test_prometheus_reads_the_server_and_the_alerts(tmp_path: Path) -> None:
    config = LAPTOP / "prometheus.yml"
    mounted = dict(one.split(":")[:2] for one in services()["prometheus"]["volumes"])
    for source, target in mounted.items():
        if target.startswith("/etc/prometheus/"):
            (tmp_path / Path(target).name).write_text((LAPTOP / source).read_text())
    checked = subprocess.run(
        [require_program("promtool"), "check", "config", tmp_path / config.name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (scrape,) = yaml.safe_load(config.read_text())["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": ["server:8080"]}]
    assert scrape["job_name"] == "dragoman"


def test_grafana_finds_prometheus_and_every_dashboard() -> None:
    (source,) = yaml.safe_load((LAPTOP / "grafana" / "datasources.yaml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    (provider,) = yaml.safe_load((LAPTOP / "grafana" / "dashboards.yaml").read_text())["providers"]
    mounted = [one.split(":") for one in services()["grafana"]["volumes"]]
    (folder,) = (one[0] for one in mounted if one[1] == provider["options"]["path"])
    titles = {json.loads(path.read_text())["title"] for path in (LAPTOP / folder).glob("*.json")}
    assert titles == {"Dragoman: live plane", "Dragoman: lab plane", "Dragoman: cluster"}
