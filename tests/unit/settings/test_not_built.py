"""What does nothing yet is accepted with its default only, and refused with that reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import SettingsError
from dragoman.settings import load_settings

ASKED = [
    ("scheduler.web_task_segmentation", "vad", '"webrtc"', "voice activity detection"),
    ("scheduler.canary", "routes", '[{ pair = "en:es" }]', "canary routes"),
]


@pytest.mark.parametrize(("section", "leaf", "value", "what"), ASKED)
def test_a_file_that_asks_for_what_is_not_built_is_refused_with_that_reason(
    section: str, leaf: str, value: str, what: str, tmp_path: Path
) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(f"[{section}]\n{leaf} = {value}\n")
    with pytest.raises(SettingsError, match=rf"{leaf} = .*{what}.* not built yet; leave the key"):
        load_settings(file, environ={})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scheduler.web_task_segmentation.vad", "silero"),
    ],
)
def test_a_variable_that_asks_for_what_is_not_built_is_refused_too(name: str, value: str) -> None:
    variable = "DRAGOMAN_" + name.upper().replace(".", "__")
    with pytest.raises(SettingsError, match=f"environment {variable}: {name} = .*not built yet"):
        load_settings(environ={variable: value})


def test_a_key_beside_those_that_are_not_built_is_unknown_as_any_other(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[lab.live_sample]\nrate = 1\n")
    with pytest.raises(SettingsError, match=r"lab\.live_sample\.rate is not a known key"):
        load_settings(file, environ={})
