"""Where settings come from, and which source wins."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import SettingsError
from dragoman.settings import load_settings
from dragoman.settings.kinds import as_toml
from dragoman.settings.tree import KEYS, nested, value_of

# Keys of every type whose values are free of each other, so that any choice of them is allowed.
FREE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "server.port": st.integers(0, 65535),
    "server.data_dir": st.sampled_from([Path("a"), Path("b/c"), Path("/d e")]),
    "server.drain_seconds": st.floats(0, 1000, width=32),
    "auth.insecure": st.booleans(),
    "log.level": st.sampled_from(["debug", "info", "warning", "error"]),
    "scheduler.pools.tenant_cells": st.dictionaries(
        st.text("ab. \"'", min_size=1),
        st.lists(st.integers(0, 999), min_size=1).map(tuple),
        max_size=3,
    ),
    "lab.denied_words": st.lists(st.text("ab\"',[ ", min_size=1)).map(tuple),
}

Choice = dict[str, Any]
choices = st.fixed_dictionaries({}, optional=FREE_VALUES)


def as_file(choice: Choice, folder: str) -> Path:
    file = Path(folder) / "dragoman.toml"
    lines = [f"{name} = {as_toml(value)}" for name, value in choice.items()]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def as_environ(choice: Choice) -> dict[str, str]:
    def text(value: Any) -> str:
        return json.dumps(value) if isinstance(value, dict | tuple | bool) else str(value)

    return {KEYS[name].variable: text(value) for name, value in choice.items()}


def flag_of(name: str) -> str:
    option = "log-level" if name == "log.level" else KEYS[name].leaf.replace("_", "-")
    return f"flag --{option}"


@settings(deadline=None)
@given(in_file=choices, in_environ=choices, in_flags=choices)
def test_flags_win_over_the_environment_over_the_file_over_the_defaults(
    in_file: Choice, in_environ: Choice, in_flags: Choice
) -> None:
    with TemporaryDirectory() as folder:
        file = as_file(in_file, folder)
        loaded = load_settings(file, flags=nested(in_flags), environ=as_environ(in_environ))
        for name in FREE_VALUES:
            key = KEYS[name]
            layers = [
                (in_flags, flag_of(name)),
                (in_environ, f"environment {key.variable}"),
                (in_file, f"file {file}"),
                ({name: key.default}, "default"),
            ]
            choice, source = next(layer for layer in layers if name in layer[0])
            assert value_of(loaded.settings, name) == choice[name]
            assert loaded.sources[name] == source


def test_every_key_has_a_source() -> None:
    loaded = load_settings(environ={"DRAGOMAN_SERVER__PORT": "9000"})
    assert set(loaded.sources) == set(KEYS)
    others = {source for name, source in loaded.sources.items() if name != "server.port"}
    assert others == {"default"}


def test_a_file_is_read_only_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dragoman.toml").write_text("[server]\nport = 9000", encoding="utf-8")
    assert load_settings(environ={}).settings.server.port == 8080
    loaded = load_settings(environ={"DRAGOMAN_CONFIG": "dragoman.toml"})
    assert loaded.settings.server.port == 9000
    assert loaded.sources["server.port"] == "file dragoman.toml"


def test_a_file_named_by_flag_wins_over_one_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[server]\nport = 9000", encoding="utf-8")
    loaded = load_settings(file, environ={"DRAGOMAN_CONFIG": "other.toml"})
    assert loaded.settings.server.port == 9000


def test_the_environment_of_the_process_is_used_when_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAGOMAN_SERVER__PORT", "9000")
    assert load_settings().settings.server.port == 9000


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    loaded = load_settings(environ={}, flags={"server": {"host": None, "port": 9000}})
    assert loaded.sources["server.host"] == "default"
    assert loaded.sources["server.port"] == "flag --port"


def test_data_dir_is_filled_into_the_url_wherever_it_was_set() -> None:
    flags = {"server": {"data_dir": Path("/var/lib/dragoman")}}
    environ = {"DRAGOMAN_STORE__DATABASE_URL": "sqlite:///{data_dir}/keys.db"}
    loaded = load_settings(environ=environ, flags=flags)
    assert loaded.settings.store.database_url == "sqlite:////var/lib/dragoman/keys.db"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a, b ,c", ("a", "b", "c")),
        ('["a,b", "c"]', ("a,b", "c")),
    ],
)
def test_a_list_in_the_environment_is_separated_by_commas_or_is_json(
    text: str, words: tuple[str, ...]
) -> None:
    loaded = load_settings(environ={"DRAGOMAN_LAB__DENIED_WORDS": text})
    assert loaded.settings.lab.denied_words == words


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("DRAGOMAN_SERVER__PROT", "1", ["did you mean DRAGOMAN_SERVER__PORT?"]),
        ("DRAGOMAN_SERVER_PORT", "9000", ["did you mean DRAGOMAN_SERVER__PORT?"]),
        (
            "DRAGOMAN_SCHEDULER_NODE_HEALTH_FORGET_OFFLINE_SECONDS",
            "9",
            ["did you mean DRAGOMAN_SCHEDULER__NODE_HEALTH__FORGET_OFFLINE_SECONDS?"],
        ),
        ("DRAGOMAN_PORT", "9000", ["did you mean DRAGOMAN_SERVER__PORT?"]),
        ("DRAGOMAN_NONSENSE", "1", ["there is no setting of this name", "unset it"]),
        ("DRAGOMAN_SERVER", "{}", ["there is no setting of this name"]),
        ("DRAGOMAN_SERVER__PORT", "http", ["server.port", "whole number"]),
        ("DRAGOMAN_AUTH__INSECURE", "perhaps", ["auth.insecure", "true or false"]),
        ("DRAGOMAN_SCHEDULER__POOLS__TENANT_CELLS", "acme=1", ["tenant_cells", "table"]),
        ("DRAGOMAN_LAB__DENIED_WORDS", '["a"', ["lab.denied_words", "list"]),
    ],
)
def test_a_wrong_variable_is_refused_by_name(variable: str, text: str, words: list[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(environ={variable: text})
    for word in [f"environment {variable}", *words]:
        assert word in refused.value.message


def test_a_wrong_flag_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"flag --port: server\.port = 70000 must be at most"):
        load_settings(environ={}, flags={"server": {"port": 70000}})
    with pytest.raises(SettingsError, match=r"flag --log-level: log\.level = \"loud\" must be"):
        load_settings(environ={}, flags={"log": {"level": "loud"}})


def test_variables_that_an_orchestrator_makes_for_a_service_are_left_alone() -> None:
    load_settings(
        environ={
            "DRAGOMAN_SERVICE_HOST": "10.0.0.7",
            "DRAGOMAN_SERVICE_PORT": "8080",
            "DRAGOMAN_SERVICE_PORT_HTTP": "8080",
            "DRAGOMAN_PORT": "tcp://10.0.0.7:8080",
            "DRAGOMAN_PORT_8080_TCP": "tcp://10.0.0.7:8080",
            "DRAGOMAN_PORT_8080_TCP_ADDR": "10.0.0.7",
            "DRAGOMAN_LAB_SERVICE_HOST": "10.0.0.8",
            "HOME": "/home/someone",
        }
    )
