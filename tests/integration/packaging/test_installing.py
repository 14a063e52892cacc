"""``pip install dragoman`` gives a live program, bare and with each extra."""

from __future__ import annotations

import email
import re
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.packaging.installations import (
    PATIENCE_SECONDS,
    ROOT,
    Distributions,
    Installation,
    build,
)

from dragoman.extras import NEEDED_MODULES, NOT_IN_ALL

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]

OPTIONAL_PACKAGES = {
    re.split(r"[\[>=]", requirement)[0].lower()
    for extra, requirements in EXTRAS.items()
    if extra != "all"
    for requirement in requirements
} - {"sqlalchemy"}
"""What only extras bring; sqlalchemy is needed always, mysql and postgres add greenlet to it."""

NOT_AMONG_ALL = {"piper"}
"""Its licence is another one."""

CODE_OF_EXTRA = {
    "audio": (
        "import av; from dragoman.audio import Pcm16, resampled;"
        "assert len(resampled(Pcm16(bytes(320), 8000), 16000).samples) == 640"
    ),
    "cluster": "from dragoman.live.shared import RedisSharedLedger",
    "gpu": "import pynvml; from dragoman.sdk import Graphics; Graphics().usage()",
    "lab": "import pandas; from dragoman.lab import statistics; import jiwer, sacrebleu",
    "local": (
        "from dragoman.engines.local.recognising import open_recogniser;"
        "assert open_recogniser()(bytes(32_000)) is not None"
    ),
    "microphone": "from importlib.util import find_spec; assert find_spec('sounddevice')",
    "mysql": "from dragoman.store.mysql import MysqlServer",
    "oidc": "from dragoman.auth.oidc import OidcClient; import joserfc",
    "piper": "from importlib.util import find_spec; assert find_spec('piper')",
    "postgres": "from dragoman.store.postgres import PostgresServer",
    "tls": (
        "import pathlib; from dragoman.cli.self_signed import self_signed;"
        "assert self_signed(pathlib.Path('tls'), '127.0.0.1').key.exists()"
    ),
    "tracing": "from dragoman.observability.otlp import OtlpExit",
    "vad": (
        "from dragoman.voice_activity import open_detector;"
        "open_detector('webrtc', 16_000), open_detector('silero', 16_000)"
    ),
    "whisper": (
        "import faster_whisper, ctranslate2; from dragoman.engines import engine_kind;"
        "assert all(k.requirements()[0].found for k in engine_kind('whisper').stages.values())"
    ),
}

ASKS_FOR_EXTRA = {
    "cluster": {"DRAGOMAN_CLUSTER__ENABLED": "true"},
    "mysql": {"DRAGOMAN_STORE__DATABASE_URL": "mysql://127.0.0.1:1/none"},
    "postgres": {"DRAGOMAN_STORE__DATABASE_URL": "postgresql://127.0.0.1:1/none"},
    "tracing": {"DRAGOMAN_TRACING__ENABLED": "true"},
}
"""Settings that ask for the extra; the others are asked for by a call or a command."""

ANY_PORT = {"DRAGOMAN_SERVER__PORT": "0"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def bare(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("bare"), built.wheel)


# --- what is built --------------------------------------------------------------------------------


def test_a_wheel_from_the_sdist_holds_what_a_wheel_from_the_source_holds(
    built: Distributions,
) -> None:
    assert _contents(built.wheel) == _contents(built.wheel_of_the_source)
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "src/dragoman/py.typed"} <= names
    assert "src/dragoman/api/console/built/index.html" in names
    assert not [name for name in names if "node_modules" in name]


def test_every_file_that_the_program_reads_is_in_the_wheel(built: Distributions) -> None:
    packed = set(_contents(built.wheel))
    source = ROOT / "src"
    kept = {
        str(file.relative_to(source))
        for file in (source / "dragoman").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert kept <= packed


def _contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as opened:
        return {file.filename: file.CRC for file in opened.infolist()}


def test_an_index_would_take_both_and_show_the_readme(built: Distributions) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", built.sdist, built.wheel],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("PASSED") == 2


def test_the_metadata_says_who_what_and_for_whom(built: Distributions) -> None:
    with zipfile.ZipFile(built.wheel) as opened:
        [name] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        found = email.message_from_bytes(opened.read(name))
        [packed] = [name for name in opened.namelist() if name.endswith("/built_version.py")]
        version_file = opened.read(packed).decode()
    assert (found["Name"], found["Author"]) == ("dragoman", "Dragoman developers")
    assert (found["License-Expression"], found["License-File"]) == ("Apache-2.0", "LICENSE")
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    for header in ("Summary", "Keywords", "Classifier"):
        assert found[header], header
    assert f'"{found["Version"]}"' in version_file, "what --version says"
    assert found["Version"] in built.wheel.name
    # The project has no address of its own yet: none is made up.
    assert not found.get_all("Project-URL")


def test_every_extra_is_one_that_the_program_asks_for() -> None:
    assert EXTRAS.keys() - {"all"} == NEEDED_MODULES.keys() == CODE_OF_EXTRA.keys()
    (everything,) = EXTRAS["all"]
    assert everything == f"dragoman[{','.join(sorted(NEEDED_MODULES.keys() - NOT_IN_ALL))}]"


def test_the_page_about_installing_lists_every_extra() -> None:
    page = (ROOT / "docs" / "howto" / "install.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [*sorted(NEEDED_MODULES), "all"]


# --- a bare installation --------------------------------------------------------------------------


def test_an_installation_says_the_version_of_its_wheel(
    bare: Installation, built: Distributions
) -> None:
    said = bare.dragoman("--version").stdout.split()
    assert said == ["dragoman", built.wheel.name.split("-")[1]]


def test_a_bare_installation_has_no_optional_package(bare: Installation) -> None:
    assert bare.packages & (OPTIONAL_PACKAGES | {"greenlet", "duckdb", "pytest"}) == set()


EVERY_HELP = """
import contextlib, io, typer
from dragoman.cli.app import COMMANDS, command_line, main

def paths(command, words):
    yield words
    for name, child in getattr(command, "commands", {}).items():
        yield from paths(child, (*words, name))

for command in COMMANDS:
    top = typer.main.get_command(command_line([command.name]))
    for words in paths(top.commands[command.name], (command.name,)):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            code = main([*words, "--help"])
        assert code == 0 and "Usage: dragoman " + " ".join(words) in told.getvalue(), words
        print(*words)
"""


def test_every_command_shows_its_help(bare: Installation) -> None:
    shown = bare.python(EVERY_HELP).stdout.splitlines()
    assert {"serve", "demo", "say", "keys create", "cluster dlq list", "experiment run"} <= {*shown}
    assert "Commands:" in bare.dragoman("--help").stdout


def test_doctor_finds_nothing_wrong(bare: Installation) -> None:
    told = bare.dragoman("doctor", env=ANY_PORT).stdout
    assert "fail" not in told


def test_the_demo_runs_and_ends_by_itself(bare: Installation) -> None:
    told = bare.dragoman("demo", "--seconds", "5", "--port", "0", "--data-dir", "demo-data")
    assert "Dragoman is ready at" in told.stdout


def test_something_can_be_said_to_a_running_server(bare: Installation) -> None:
    with _demo(bare) as url:
        said = bare.dragoman(
            *("say", "--text", "Good morning", "--from", "en", "--to", "es", "--url", url)
        )
    assert "took" in said.stdout


@contextmanager
def _demo(installation: Installation) -> Iterator[str]:
    """The address of a server with a small fleet; it is told to stop, and ends in peace."""
    flags = ("--nodes", "2", "--traffic", "1", "--port", "0", "--data-dir", "say-data")
    with (installation.work / "demo.log").open("w") as log:
        demo = subprocess.Popen(
            [installation.command, "demo", *flags],
            cwd=installation.work,
            env=installation.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with demo:
        try:
            assert demo.stdout is not None
            for line in demo.stdout:
                if ready := re.search(r"ready at (\S+)", line):
                    yield ready[1]
                    break
            else:
                raise AssertionError(f"no demo: {(installation.work / 'demo.log').read_text()}")
            demo.send_signal(signal.SIGTERM)
            demo.communicate(timeout=PATIENCE_SECONDS)
            assert demo.returncode == 0
        finally:
            if demo.poll() is None:
                demo.kill()


THREE_LINES = """
from dragoman import lab
rows = [{"question": "1+1", "answer": "2"}, {"question": "2+2", "answer": "5"}]
result = lab.run(dataset=rows, target=lambda question: str(eval(question)),
                 evaluators=[lab.exact(reference="answer")], data_dir="lab-data")
print(result.summary)
assert result.summary.scores["exact"].mean == 0.5
assert [row.scores["exact"].score for row in result.rows()] == [1.0, 0.0]
"""


def test_an_experiment_of_three_lines_runs_and_its_results_are_read(bare: Installation) -> None:
    assert "mean 0.5" in bare.python(THREE_LINES).stdout
    (bare.work / "rows.jsonl").write_text(
        '{"said": "a", "meant": "a"}\n{"said": "a", "meant": ""}\n'
    )
    (bare.work / "exp.toml").write_text(
        'name = "three lines"\n[dataset]\nfile = "rows.jsonl"\n'
        '[target]\nkind = "recorded"\noutput = "said"\n'
        '[[evaluators]]\nkind = "exact"\nreference = "meant"\n'
    )
    told = bare.dragoman("experiment", "run", "exp.toml", "--data-dir", "lab-data").stdout
    assert "0.5" in told


def test_a_score_that_needs_the_extra_lab_is_refused_with_the_command_that_helps(
    bare: Installation,
) -> None:
    (bare.work / "scored.jsonl").write_text('{"said": "a", "meant": "a"}\n')
    (bare.work / "scored.toml").write_text(
        'name = "scored"\n[dataset]\nfile = "scored.jsonl"\n'
        '[target]\nkind = "recorded"\noutput = "said"\n'
        '[[evaluators]]\nkind = "chrf"\nreference = "meant"\n'
    )
    refused = bare.dragoman(
        "experiment", "run", "scored.toml", "--data-dir", "scored-data", expected=2
    )
    assert refused.stderr.splitlines()[-1] == (
        "error: The evaluator `chrf` needs the Python package sacrebleu, which is not installed; "
        "run `pip install 'dragoman[lab]'`."
    )


@pytest.mark.parametrize("extra", sorted(ASKS_FOR_EXTRA))
def test_a_setting_that_asks_for_a_missing_extra_is_refused_with_the_command_that_helps(
    extra: str, bare: Installation
) -> None:
    env = {**ANY_PORT, **ASKS_FOR_EXTRA[extra]}
    refused = bare.dragoman("serve", expected=2, env=env)
    (sentence,) = refused.stderr.splitlines()
    assert re.fullmatch(
        rf"error: .* needs the Python package [\w.]+, which is not installed; "
        rf"run `pip install 'dragoman\[{extra}\]'`\.",
        sentence,
    )
    assert f"dragoman[{extra}]" in bare.dragoman("doctor", expected=1, env=env).stdout


# --- with each extra ------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", sorted(CODE_OF_EXTRA))
def test_with_an_extra_the_part_that_it_is_for_can_be_used(
    extra: str, built: Distributions, bare: Installation, tmp_path: Path
) -> None:
    installation = Installation(tmp_path, built.wheel, extra, bare=bare)
    installation.python(_uses(extra))
    told = installation.dragoman(
        "doctor",
        # There is no server behind the settings of these.
        expected=1 if extra in ("cluster", "mysql", "postgres") else 0,
        env={**ANY_PORT, **ASKS_FOR_EXTRA.get(extra, {})},
    )
    assert "not installed" not in told.stdout


def test_the_extra_all_brings_every_part(
    built: Distributions, bare: Installation, tmp_path: Path
) -> None:
    installation = Installation(tmp_path, built.wheel, "all", bare=bare)
    installation.python("\n".join(map(_uses, CODE_OF_EXTRA.keys() - NOT_AMONG_ALL)))


def _uses(extra: str) -> str:
    """A program that asks for the extra, and then imports the code that needs it."""
    asks = f"from dragoman.extras import require_extra; require_extra({extra!r}, 'this test')"
    return f"{asks}\n{CODE_OF_EXTRA[extra]}"
