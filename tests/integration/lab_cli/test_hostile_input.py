"""Input that means harm: each is a clear error or harmless text, and nothing else is disturbed."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.integration.serve.server_process import DRAGOMAN, environment

from dragoman import lab
from dragoman.cli import main
from dragoman.errors import InvalidFilter

SCRIPT = "<script>alert('x')</script>"
BELL = "\x1b]0;owned\x07\x1b[2J"
"""Changes a terminal's title, rings, and clears the screen."""
DEEP = '{"not": ' * 1_000 + '{"field": "status", "op": "is_null"}' + "}" * 1_000
ROWS: list[dict[str, lab.JsonValue]] = [
    {"said": f"{SCRIPT} {BELL} {number}", "meant": str(number), SCRIPT: BELL} for number in range(6)
]


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def both(lab_folder: Path) -> tuple[lab.RunResult, lab.RunResult]:
    """Two runs whose names, columns, outputs, reasons and errors are all hostile."""

    def judged(output: str) -> lab.Score:
        return lab.Score(float(len(output) > 10), label=SCRIPT, reason=f"{SCRIPT} {BELL}")

    def shortened(said: str) -> str:
        if said.endswith("5"):
            raise ValueError(f"{SCRIPT} {BELL}")
        return said[-12:]

    evaluators = [
        lab.exact(reference="said"),
        lab.python(judged, name="<img src=x onerror=alert(1)>"),
    ]
    return (
        lab.run(
            dataset=ROWS,
            target=lab.recorded(output="said"),
            evaluators=evaluators,
            data_dir=lab_folder,
            name=f"one {SCRIPT}",
        ),
        lab.run(
            dataset=ROWS,
            target=shortened,
            evaluators=evaluators,
            data_dir=lab_folder,
            name=f"two {SCRIPT} | `*_",
            retries=0,
        ),
    )


class Tags(HTMLParser):
    """Every element of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


def test_notebooks_show_hostile_names_and_texts_as_text(
    both: tuple[lab.RunResult, lab.RunResult],
) -> None:
    compared = lab.compare(*both)
    for page in (
        both[0]._repr_html_(),
        both[1]._repr_html_(),
        compared._repr_html_(),
        both[1].plot().svg,
        compared.plot().svg,
    ):
        assert not Tags(page).found & {"script", "img"}
        assert "alert" in page, "it is shown, but as text"
    report = compared.to_markdown()
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", report)


def test_a_terminal_is_told_no_control_characters(
    both: tuple[lab.RunResult, lab.RunResult],
    lab_folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    one, two = (result.experiment_id for result in both)
    at = ["--data-dir", str(lab_folder)]
    for command in (
        ["list"],
        ["show", two],
        ["results", one],
        ["results", two],
        ["compare", one, two],
        ["compare", one, two, "--report", str(tmp_path / "report.md")],
    ):
        assert main(["experiment", *command, *at]) == 0
        told = capfd.readouterr()
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", told.out + told.err), command
    for told_by_print in (str(both[1].summary), str(lab.compare(*both))):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", told_by_print)


@pytest.mark.parametrize("command", ["results", "export", "compare", "show"])
def test_a_filter_a_thousand_levels_deep_is_bad_usage(
    command: str,
    both: tuple[lab.RunResult, lab.RunResult],
    lab_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = (result.experiment_id for result in both)
    named = [one, two] if command == "compare" else [one]
    asked = ["experiment", command, *named, "--data-dir", str(lab_folder)]
    if command == "export":
        asked += ["--format", "jsonl"]
    code = main([*asked, "--filter", DEEP])
    told = capsys.readouterr().err
    assert (code, told.count("\n")) == (1, 1) or code == 2, told
    assert "deep" in told or "nested" in told, told
    assert "should not have" not in told


def test_a_filter_of_broken_text_is_refused(
    both: tuple[lab.RunResult, lab.RunResult], lab_folder: Path
) -> None:
    """A shell hands over bytes that are no UTF-8 as they are."""
    command = [str(DRAGOMAN), "experiment", "results", both[0].experiment_id]
    asked = [*command, "--data-dir", str(lab_folder), "--filter"]
    for text in (b'{"field": "text", "op": "contains", "value": "\xff\xfe"}', b"\xff"):
        done = subprocess.run(
            [*map(str.encode, asked), text], env=environment(), check=False, capture_output=True
        )
        told = done.stderr.decode(errors="replace")
        assert done.returncode in (1, 2), told
        assert "should not have" not in told
        assert "filter" in told


def test_a_program_with_a_filter_a_thousand_levels_deep_is_told_so(
    both: tuple[lab.RunResult, lab.RunResult],
) -> None:
    tree: dict[str, lab.JsonValue] = {"field": "status", "op": "is_null"}
    for _ in range(1_000):
        tree = {"not": tree}
    with pytest.raises(InvalidFilter, match="deeper than 50"):
        both[0].rows(tree)
    with pytest.raises(InvalidFilter, match="deeper than 50"):
        lab.compare(*both, filter=tree)


def test_comparing_what_cannot_be_compared_is_refused_in_one_sentence(
    both: tuple[lab.RunResult, lab.RunResult],
    lab_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = (result.experiment_id for result in both)
    (tmp_path / "folder.md").mkdir()
    for arguments in (
        [one, one],
        [one, "no such experiment"],
        [one, two, two],
        [one, two, "--sort-by", "no such score"],
        [one, two, "--filter", "[1"],
        [one, two, "--filter", "[]"],
        [one, two, "--report", str(tmp_path / "folder.md")],
        [one, two, "--report", str(tmp_path / "no" / "such" / "folder.md")],
        [one, two, "--report", str(tmp_path / "plot.svg")],
        ["\udcff"],
    ):
        code = main(["experiment", "compare", *arguments, "--data-dir", str(lab_folder)])
        told = capsys.readouterr().err
        assert code in (1, 2), (arguments, told)
        assert "should not have" not in told, arguments
        assert "Traceback" not in told
        assert told.strip(), arguments


EVALUATORS = {
    "is no text": b"\xff\xfe[[evaluators]]",
    "is no TOML": b"[[evaluators]\nkind = 1",
    "has no kind": b"[[evaluators]]\nname = 'x'\n",
    "has an unknown kind": b"[[evaluators]]\nkind = 'exakt'\nreference = 'meant'\n",
    "names a column that is not there": b"[[evaluators]]\nkind = 'exact'\nreference = 'nope'\n",
    "names a module that is not there": b"[[evaluators]]\nkind = 'python'\nfunction = 'no:no'\n",
    "is no list": b"evaluators = 7\n",
    "has two of a name": b"[[evaluators]]\nkind = 'exact'\nreference = 'meant'\n" * 2,
    "holds a snippet that is no Python": b"[[evaluators]]\nkind = 'code'\ncode = 'def'\n",
    "holds a key": b"[[evaluators]]\nkind='llm_judge'\nurl='http://127.0.0.1:1'\nmodel='m'\n"
    b"rubric='r'\napi_key='sk-hidden'\n",
    "holds a key in a header": b"[[evaluators]]\nkind='llm_judge'\nurl='http://127.0.0.1:1'\n"
    b"model='m'\nrubric='r'\nheaders={Authorization='Bearer sk-hidden'}\n",
}


@pytest.mark.parametrize("what", EVALUATORS)
def test_scoring_by_a_file_that_makes_no_sense_changes_nothing(
    what: str,
    both: tuple[lab.RunResult, lab.RunResult],
    lab_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = both[0].rows()
    (tmp_path / "hostile.toml").write_bytes(EVALUATORS[what])
    at = ["--data-dir", str(lab_folder), "--evaluators", str(tmp_path / "hostile.toml")]
    code = main(["experiment", "score", both[0].experiment_id, *at])
    told = capsys.readouterr().err
    assert code in (1, 2), told
    assert "should not have" not in told
    assert "sk-hidden" not in told
    assert both[0].rows() == before


HOSTILE_SNIPPETS = {
    "loops": "while True: pass",
    "allocates": "x = bytearray(10**11)",
    "forks": "import os\nwhile True: os.fork()",
    "opens a socket": "import socket\nsocket.create_connection(('1.1.1.1', 53), 5)",
    "reads the environment": "import os\nassert 'A_SECRET' in os.environ",
}


@pytest.mark.parametrize("what", HOSTILE_SNIPPETS)
def test_scoring_by_a_hostile_snippet_fails_its_score_and_disturbs_no_other(
    what: str, lab_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")
    body = HOSTILE_SNIPPETS[what].replace("\n", "\n    ")
    snippet = f"def score(output):\n    {body}\n    return 1.0\n"
    result = lab.run(
        dataset=[{"said": "a"}],
        target=lab.recorded(output="said"),
        evaluators=[
            lab.exact(reference="said"),
            lab.code(snippet, name="hostile", timeout_seconds=2),
        ],
        data_dir=lab_folder,
        retries=0,
    )
    (row,) = result.rows()
    assert row.scores["exact"].score == 1.0
    assert row.scores["hostile"].score is None
    assert row.scores["hostile"].error_code == "EVALUATOR_ERROR"
    assert "hunter2" not in str(row.scores["hostile"].error_message)


def test_a_csv_with_cells_of_ten_megabytes_is_imported_or_refused_by_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wide.csv").write_text(f"a,b\n1,{'x' * 10_000_000}\n2,y\n")
    at = ["--data-dir", str(tmp_path / "data")]
    imported = main(["dataset", "import", str(tmp_path / "wide.csv"), "--name", "wide", *at])
    assert imported == 0, capsys.readouterr().err
    (tmp_path / "open.csv").write_text('a,b\n1,"' + "x" * 10_000_000 + "\n2,y\n" * 10)
    refused = main(["dataset", "import", str(tmp_path / "open.csv"), "--name", "open", *at])
    told = capsys.readouterr().err
    assert refused in (1, 2), told
    assert re.search(r"line \d+", told, re.IGNORECASE)
    assert len(told) < 2_000, "a message does not repeat the cell"


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_a_file_of_broken_utf_8_is_refused_by_its_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = b"a\n1\n" if name.endswith("csv") else b'{"a": "1"}\n{"a": "2"}\n'
    bad = b"\xff\xfe\n" if name.endswith("csv") else b'{"a": "\xff"}\n'
    (tmp_path / name).write_bytes(good + bad)
    at = ["--data-dir", str(tmp_path / "data")]
    code = main(["dataset", "import", str(tmp_path / name), "--name", "broken", *at])
    told = capsys.readouterr().err
    assert code in (1, 2), told
    assert re.search(r"line 3", told, re.IGNORECASE), told
    assert "UTF-8" in told
