"""``.ci/setup``: the demo gets what it needs, the tests get the rest, and both are quick again."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.full_job.peers.environments import find_uv
from tests.integration.packaging.installations import PATIENCE_SECONDS, ROOT, UV, pinned

PROGRAMS = ("bash", "cat", "dirname", "env", "id", "sha256sum")
"""All that the script may count on; on this machine there are no servers and no apt-get."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A copy of the source on a machine that has Python, uv, and little else."""
    copy = tmp_path / "dragoman"
    for name in (".ci", "src", "requirements"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    (programs / "uv").symlink_to(UV)
    return copy


def setup(machine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine / ".ci" / "setup", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_SECONDS,
        env={
            "PATH": str(machine.parent / "bin"),
            "HOME": str(Path.home()),  # where uv and pip keep what was downloaded before
            "PYTHON": str(Path(sys.executable).resolve()),
        },
    )


def test_the_demo_is_set_up_without_development_tools_and_without_debian_packages(
    machine: Path,
) -> None:
    first = setup(machine, "demo")
    assert first.returncode == 0, first.stderr
    assert "requirements/demo.txt" in first.stdout
    installed = {path.name for path in (machine / ".venv" / "bin").iterdir()}
    assert "dragoman" in installed
    assert not installed & {"pytest", "mypy", "ruff", "mkdocs", "uv"}
    dragoman = machine / ".venv" / "bin" / "dragoman"
    subprocess.run([dragoman, "demo", "--help"], check=True, capture_output=True)

    again = setup(machine, "demo")
    assert (again.returncode, again.stdout) == (0, ""), "nothing changed, nothing is done"

    # The tests want servers, which this machine has not, and cannot get.
    refused = setup(machine, "test")
    assert refused.returncode == 1
    assert "redis-server" in refused.stderr


def test_a_package_that_is_not_the_one_that_was_locked_is_refused(machine: Path) -> None:
    demo = machine / "requirements" / "demo.txt"
    text, changed = re.subn(
        r"(?m)^cronsim==.*(\n    --hash.*)+",
        lambda entry: re.sub(r"sha256:\w{64}", f"sha256:{'0' * 64}", entry[0]),
        demo.read_text(),
    )
    assert changed == 1
    demo.write_text(text)
    refused = setup(machine, "demo")
    assert refused.returncode != 0
    assert "cronsim" in refused.stderr
    assert not (machine / ".venv" / "bin" / "dragoman").exists()


def test_a_profile_that_there_is_not_is_refused(machine: Path) -> None:
    refused = setup(machine, "everything")
    assert refused.returncode == 1
    assert refused.stderr == "setup: there is no profile 'everything'; use demo or test.\n"


def test_the_packages_of_the_demo_are_among_those_of_the_tests_in_the_same_versions() -> None:
    demo, tests = (_pinned(name) for name in ("demo.txt", "dev.txt"))
    assert demo < tests
    assert _pinned("all.txt") < tests
    assert not {"pytest", "redis", "asyncpg", "uv"} & {name.partition("==")[0] for name in demo}


def _pinned(name: str) -> set[str]:
    """Names and versions; what is only for some systems may be for more of them elsewhere."""
    return {re.split(r"\s*;", line)[0] for line in pinned(name)}


def test_benchmarks_find_the_uv_that_setup_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert Path(find_uv()) == UV
