"""The reference page is made from the settings themselves."""

import subprocess
import sys
from pathlib import Path

from dragoman.settings.reference import reference
from dragoman.settings.tree import KEYS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    remedy = "run `python -m dragoman.settings.reference > docs/reference/settings.md`"
    assert PAGE.read_text(encoding="utf-8") == reference(), remedy


def test_the_page_is_what_the_command_prints() -> None:
    command = [sys.executable, "-W", "error", "-m", "dragoman.settings.reference"]
    printed = subprocess.run(command, capture_output=True, check=True, text=True)
    assert printed.stdout == reference()


def test_every_key_has_a_row_that_no_stray_bar_breaks() -> None:
    rows = [line for line in reference().splitlines() if "DRAGOMAN_" in line and "__" in line]
    for key in KEYS.values():
        [row] = [row for row in rows if row.endswith(f"`{key.variable}` |")]
        assert row.count("|") == 5
