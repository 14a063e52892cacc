"""How a command ends: an exit code, and one sentence where something is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.app import COMMANDS, command_line
from dragoman.errors import DragomanError, NotFound, SettingsError, StoreError
from dragoman.version import __version__

DRAGOMAN = Path(sys.executable).with_name("dragoman")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty folder, so that the default data_dir is empty."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["keys", "create", "--role", "king"], "'king' is not one of 'node', 'client',"),
        (["jobs", "list", "--limit", "0"], "'--limit': '0' must be at least 1."),
        (["jobs", "list", "--limit", "many"], "'--limit': 'many' must be a whole number."),
        (["node", "--slots", "0"], "'--slots': '0' must be at least 1."),
        (["demo", "--seconds", "-1"], "'--seconds': '-1' must be at least 0."),
    ],
    ids=str,
)
def test_a_wrong_option_is_told_in_words_of_the_program(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    written = capsys.readouterr().err
    assert says in written
    assert "Value error" not in written
    assert "Input should" not in written


def test_a_server_that_is_not_there_is_told_without_the_name_of_an_exception(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nodes", "list", "--url", "http://127.0.0.1:1"]) == 1
    written = capsys.readouterr().err
    assert "No server answers at http://127.0.0.1:1: All connection attempts failed; is" in written
    assert "ConnectError" not in written


def test_a_text_of_nothing_is_told_by_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["say", "--text", "", "--from", "en", "--to", "es"]) == 2
    assert "--text: there is nothing to say; give a text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["-h"], 0),
        (["--version"], 0),
        (["serve", "--help"], 0),
        (["config", "show"], 0),
        (["db", "check"], 1),
        (["keys", "revoke", "k-none"], 1),
        ([], 2),
        (["no-such-command"], 2),
        (["--no-such-option"], 2),
        (["serve", "--no-such-option"], 2),
        (["serve", "--port", "http"], 2),
        (["serve", "--port", "99999"], 2),
        (["serve", "--log-level", "loud"], 2),
        (["serve", "--config", "missing.toml"], 2),
        (["demo", "--seconds", "-1"], 2),
        (["config", "check", "missing.toml"], 2),
        (["keys", "create", "--role", "king"], 2),
    ],
    ids=str,
)
def test_each_end_has_its_exit_code(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    written = capsys.readouterr()
    assert "Traceback" not in written.out + written.err
    if code:
        assert written.err


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (NotFound("No such key; list them."), 1, "error: No such key; list them.\n"),
        (StoreError("It is full; make room."), 1, "error: It is full; make room.\n"),
        (SettingsError("a: bad.\nb: worse."), 2, "error: a: bad.\nerror: b: worse.\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            ValueError("a\nb"),
            1,
            "error: Something went wrong that should not have (ValueError: a b); "
            "set DRAGOMAN_TRACEBACK=1 to see the traceback.\n",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_a_command_raises_becomes_one_sentence(
    raised: DragomanError,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("dragoman.cli.config.load_settings", raising(raised))

    assert main(["config", "show"]) == code
    assert capsys.readouterr().err == said


def test_the_traceback_is_shown_to_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_TRACEBACK", "1")
    monkeypatch.setattr("dragoman.cli.config.load_settings", raising(ValueError("odd")))

    assert main(["config", "show"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_asking_for_tracebacks_is_not_taken_for_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_TRACEBACK", "1")

    assert main(["config", "show"]) == 0


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    return fail


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])

    assert capsys.readouterr().out == f"dragoman {__version__}\n"


def test_the_overview_says_of_each_command_what_its_own_help_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["--help"])
    overview = capsys.readouterr().out

    for command in COMMANDS:
        assert command.summary in overview
        assert main([command.name, "--help"]) == 0
        assert command.summary in capsys.readouterr().out


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_only_the_command_that_is_asked_for_is_real(command: str) -> None:
    app = command_line([command])

    listed = [found.name for found in app.registered_commands]
    listed += [found.name for found in app.registered_groups]
    assert sorted(map(str, listed)) == sorted(command.name for command in COMMANDS)


SLOW_TO_IMPORT = frozenset({"alembic", "fastapi", "pydantic", "sqlalchemy"})


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("--help", set()),
        ("say --from en --to es --text hello --url ws://127.0.0.1:1", {"pydantic"}),
        ("nodes list --url http://127.0.0.1:1", {"pydantic"}),
        ("sessions show someone --url http://127.0.0.1:1", {"pydantic"}),
        ("jobs explain something --url http://127.0.0.1:1", {"pydantic"}),
        ("cluster status --url http://127.0.0.1:1", {"pydantic"}),
        ("config show", {"pydantic"}),
        ("keys list --json --data-dir .", {"pydantic", "sqlalchemy"}),
        ("db check --data-dir .", {"pydantic", "sqlalchemy"}),
    ],
)
def test_a_command_imports_no_library_that_it_does_not_need(
    command: str, needed: set[str], tmp_path: Path
) -> None:
    assert main(["db", "upgrade", "--data-dir", str(tmp_path)]) == 0
    look = (
        "import sys; from dragoman.cli import main; main(sys.argv[1:]);"
        f"print(*{set(SLOW_TO_IMPORT)!r}.intersection(sys.modules), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", look, *command.split()],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )

    assert set(done.stderr.splitlines()[-1].split()) <= needed


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "no-such-command"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Usage: dragoman " in done.stderr


def test_a_reader_who_leaves_early_is_not_shown_an_error() -> None:
    with subprocess.Popen(
        [DRAGOMAN, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()

    assert errors == b""
    assert process.returncode == 1


def test_a_full_disk_behind_the_output_is_told_in_words() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [DRAGOMAN, "config", "show"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "error: There is no space left for what is printed; free some, or write elsewhere.\n",
    )
