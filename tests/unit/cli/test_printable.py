"""What others wrote steers no terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dragoman.cli.lab import import_progress
from dragoman.printable import MARK, printable


@pytest.mark.parametrize(
    "letter", ["\x00", "\x07", "\x08", "\x1b", "\x7f", "\x9b", "\r", "\u202e", "\u2066", "\udcff"]
)
def test_a_letter_that_steers_a_terminal_becomes_a_mark(letter: str) -> None:
    assert printable(f"a{letter}b") == f"a{MARK}b"


@pytest.mark.parametrize("text", ["a\nb\tc", "ñandú 日本語 ไทย 😀", "", "שלום", "e\u0301"])
def test_text_of_any_script_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_the_name_of_a_file_is_no_style_of_the_progress_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(import_progress, "QUIET_SECONDS", 0)
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with import_progress.told_on(console) as tell:
        tell("Sending [red]rows[/red]\x07.jsonl: 5 %")
        console.print("over")
    assert f"[red]rows[/red]{MARK}.jsonl" in shown.getvalue()
