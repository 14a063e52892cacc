"""What the image promises: it lints, its command exists, and the program needs no writable root."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.integration.serve.server_process import DRAGOMAN, ServerProcess, environment
from tests.servers import require_program
from tests.unit.deploy.files import DOCKERFILE, REPOSITORY, check_command, settings_of

READ_ONLY_ROOT = """
mount --bind "$DATA" /mnt
mount -o remount,ro,bind /
mount -t tmpfs none "$TMPDIR"
exec unshare --user --map-user=10001 --map-group=10001 "$@"
"""
"""As the image has it: a user without rights, and nothing to write to but /mnt and $TMPDIR.

That is not /tmp here, where the project itself may lie.
"""


def instructions(name: str) -> list[str]:
    """What the last stage of the image says under this name."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    shipped = text.rpartition("\nFROM ")[2]
    return [line.partition(" ")[2] for line in shipped.splitlines() if line.startswith(f"{name} ")]


def test_hadolint_has_nothing_to_say() -> None:
    done = subprocess.run([hadolint(), DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_notices_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /src && sudo pip install dragoman\n")
    done = subprocess.run(
        [hadolint(), tmp_path / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "DL3006" in done.stdout


def hadolint() -> str:
    beside = DRAGOMAN.with_name("hadolint")
    return str(beside) if beside.exists() else require_program("hadolint")


def test_the_image_starts_a_command_that_exists_under_tini_as_a_user_without_rights() -> None:
    (entry,) = instructions("ENTRYPOINT")
    (command,) = instructions("CMD")
    (user,) = instructions("USER")

    assert json.loads(entry) == ["tini", "--", "dragoman"]
    check_command(json.loads(command))
    assert user == "10001:10001"


def test_commands_in_the_container_use_the_folder_of_the_server() -> None:
    (variables,) = instructions("ENV")
    (volume,) = instructions("VOLUME")
    environ = dict(word.split("=", 1) for word in variables.split() if word.startswith("DRAGOMAN_"))

    settings = settings_of({**environ, "DRAGOMAN_AUTH__MODE": "keys"})
    assert str(settings.server.data_dir) == volume == instructions("WORKDIR")[0]


def test_what_the_image_copies_is_in_the_repository_and_not_ignored() -> None:
    kept = [
        line[1:]
        for line in (REPOSITORY / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for line in re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text()).splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--from"):
            for source in words[1:-1]:
                assert (REPOSITORY / source).exists(), source
                assert any(Path(source).is_relative_to(one) for one in kept), source


def test_the_extras_of_the_image_exist() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    page = (REPOSITORY / "docs/howto/deploy.md").read_text()
    assert f"The default, `{extras}`" in page, "the page names those that the image has"


def test_the_image_has_what_the_settings_of_a_deployed_instance_ask_for() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert {"cluster", "mysql", "oidc", "postgres", "tracing"} <= set(extras.split(","))


@pytest.fixture
def namespaces() -> None:
    tried = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "true"],
        capture_output=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip("this machine does not let a process have mounts of its own")


@pytest.mark.usefixtures("namespaces")
def test_a_server_and_its_lab_need_no_writable_root_and_pass_the_health_check(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    command = (
        *("unshare", "--user", "--map-root-user", "--mount"),
        *("sh", "-euc", READ_ONLY_ROOT, "sh", DRAGOMAN, "serve"),
    )
    env = environment(
        DATA=str(data),
        HOME="/var/lib/dragoman",
        TMPDIR="/var/tmp",
        PYTHONDONTWRITEBYTECODE="1",
    )
    with ServerProcess(data, "--data-dir", "/mnt", command=command, env=env, lab=True) as server:
        (check,) = instructions("HEALTHCHECK")
        words = json.loads(check.partition(" CMD ")[2])
        port = server.url.rpartition(":")[2]
        healthy = subprocess.run(
            words, env=environment(DRAGOMAN_SERVER__PORT=port), check=False, capture_output=True
        )
        assert healthy.returncode == 0, healthy.stderr
        ready = server.get("/readyz").json()
        assert ready == {"status": "ready", "reasons": [], "lacking": [], "warnings": []}
        server.signal()
        assert server.wait() == 0
        sick = subprocess.run(
            words, env=environment(DRAGOMAN_SERVER__PORT=port), check=False, capture_output=True
        )
        assert sick.returncode != 0
