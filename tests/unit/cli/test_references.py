"""The pages about the command line and the Python API are made from the program itself."""

from __future__ import annotations

from pathlib import Path

from dragoman import lab, sdk, testing
from dragoman.cli import python_reference, reference
from dragoman.cli.app import COMMANDS

FOLDER = Path(__file__).parents[3] / "docs" / "reference"


def test_the_page_of_the_command_line_is_up_to_date() -> None:
    page = (FOLDER / "cli.md").read_text(encoding="utf-8")
    assert page == reference.reference(), "run `make reference`"


def test_the_page_of_the_command_line_has_every_command() -> None:
    lines = reference.reference().splitlines()
    assert [line[3:] for line in lines if line.startswith("## ")] == [one.name for one in COMMANDS]


def test_the_page_of_the_python_api_is_up_to_date() -> None:
    page = (FOLDER / "python.md").read_text(encoding="utf-8")
    assert page == python_reference.reference(), "run `make reference`"


def test_the_page_of_the_python_api_has_every_class_and_function() -> None:
    page = python_reference.reference()
    for module in (sdk, lab, testing):
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, type):
                assert f"### {name}\n" in page or f"| `{name}` |" in page
