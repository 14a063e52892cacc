"""The version comes from the tags of the repository, and there is one where there are no tags."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.version import Version
from tests.integration.packaging.installations import ROOT

NEXT_RELEASE = "0.1.0"
"""The release that this source is on its way to; CONTRIBUTING says when it changes."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, that builds as this one does and holds little."""
    folder = tmp_path / "repository"
    (folder / "src" / "dragoman").mkdir(parents=True)
    (folder / "src" / "dragoman" / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> None:
    person = ("-c", "user.name=Someone", "-c", "user.email=someone@example.com")
    subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "A change")


def version_of(folder: Path) -> Version:
    told = subprocess.run(
        [sys.executable, "-m", "hatchling", "version"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return Version(told.stdout.strip())


def test_a_tagged_commit_is_that_release_and_the_next_commit_is_on_the_way_to_another(
    repository: Path,
) -> None:
    git(repository, "tag", "v1.2.3")
    assert str(version_of(repository)) == "1.2.3"
    commit(repository)
    git(repository, "tag", "console-2")  # of something else
    assert str(version_of(repository)) == "1.2.4.dev1"
    git(repository, "tag", "v1.3.0rc1")
    assert str(version_of(repository)) == "1.3.0rc1"


def test_a_clone_without_tags_or_history_has_a_version(repository: Path, tmp_path: Path) -> None:
    assert version_of(repository).is_devrelease
    commit(repository)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(clone))
    assert version_of(clone).is_devrelease


def test_a_copy_without_a_repository_is_on_the_way_to_the_next_release(
    repository: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repository, copy, ignore=shutil.ignore_patterns(".git"))
    assert str(version_of(copy)) == f"{NEXT_RELEASE}.dev0"


def test_an_sdist_keeps_the_version_that_it_was_made_from(repository: Path, tmp_path: Path) -> None:
    git(repository, "tag", "v1.2.3")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "sdist"],
        cwd=repository,
        check=True,
        capture_output=True,
    )
    [sdist] = (repository / "dist").iterdir()
    assert sdist.name == "dragoman-1.2.3.tar.gz"
    with tarfile.open(sdist) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    unpacked = tmp_path / "unpacked" / "dragoman-1.2.3"
    assert str(version_of(unpacked)) == "1.2.3"
    assert '"1.2.3"' in (unpacked / "src" / "dragoman" / "built_version.py").read_text()


def test_everything_that_names_the_next_release_names_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "dragoman" / "Chart.yaml").read_text())
    client = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text())
    assert project["tool"]["hatch"]["version"]["fallback-version"] == f"{NEXT_RELEASE}.dev0"
    assert (chart["version"], chart["appVersion"]) == (NEXT_RELEASE, NEXT_RELEASE)
    assert client["version"] == NEXT_RELEASE
