"""What installed packages add is found as soon as it is there, and looked for no more than that."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from dragoman.entry_points import added_to


def install(site: Path, name: str) -> None:
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[dragoman.trials]\n{name} = {name}:KIND\n")


def names() -> set[str]:
    return {point.name for point in added_to("dragoman.trials")}


def test_a_package_is_found_once_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names() == set()
    install(tmp_path / "site", "early")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert names() == {"early"}
    before = os.stat(tmp_path / "site").st_mtime_ns
    install(tmp_path / "site", "late")
    # A clock of the file system may be coarse; a real installation takes longer than its tick.
    os.utime(tmp_path / "site", ns=(before + 1_000_000, before + 1_000_000))
    assert names() == {"early", "late"}
    assert not added_to("dragoman.others")


def test_packages_are_looked_for_once_while_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0

    def counted() -> object:
        nonlocal looked
        looked += 1
        return entry_points()

    monkeypatch.setattr("dragoman.entry_points.entry_points", counted)
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(5):
        names()
    assert looked == 1
