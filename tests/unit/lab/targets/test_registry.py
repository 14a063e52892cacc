"""Kinds that installed packages add."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from dragoman.errors import InvalidMessage
from dragoman.lab.model import TargetSpec
from dragoman.lab.plugins import Context, PluginRegistry
from dragoman.lab.targets import TARGETS, TargetKind, open_target
from dragoman.lab.targets.recorded import RecordedTarget, RecordedTargetSettings, check

ECHO: TargetKind[RecordedTargetSettings] = TargetKind(RecordedTargetSettings, RecordedTarget, check)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with two targets, one of which cannot be loaded."""
    folder = tmp_path / "echo-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: echo\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[dragoman.targets]\n"
        "echo = tests.unit.lab.targets.test_registry:ECHO\n"
        "broken = tests.unit.lab.targets.no_such_module:KIND\n"
        "http = tests.unit.lab.targets.test_registry:ECHO\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def registry() -> PluginRegistry[TargetKind[RecordedTargetSettings]]:
    return PluginRegistry("target", "dragoman.targets", {"recorded": ECHO})


@pytest.mark.usefixtures("installed")
def test_a_package_adds_kinds_of_its_own() -> None:
    kinds = registry()
    assert list(kinds) == ["recorded", "echo", "broken", "http"]
    assert isinstance(kinds.find("echo"), TargetKind)


@pytest.mark.usefixtures("installed")
def test_a_package_that_cannot_be_loaded_is_named_and_disturbs_nobody() -> None:
    kinds = registry()
    with pytest.raises(InvalidMessage, match=r"`broken`.*cannot be loaded"):
        kinds.find("broken")
    assert kinds.find("recorded") is ECHO


@pytest.mark.usefixtures("installed")
def test_what_is_built_in_cannot_be_replaced() -> None:
    assert TARGETS["http"] is not ECHO
    with pytest.raises(InvalidMessage, match="url"):
        open_target(TargetSpec("http", {}), Context())


@pytest.mark.parametrize("name", ["python", "http", "recorded"])
def test_every_kind_tells_the_schema_of_its_settings(name: str) -> None:
    schema = TARGETS[name].schema()
    assert json.loads(msgspec.json.encode(schema)) == schema
    assert "properties" in next(iter(schema["$defs"].values()))
