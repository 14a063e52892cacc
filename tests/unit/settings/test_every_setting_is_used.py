"""A setting or a metric that exists does something: some code of the program uses it.

mypy looks for the uses. It reads a copy of the source from which the settings and the metrics were
taken out, and complains wherever one is missing; one that it does not miss is used nowhere.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dragoman.settings
from dragoman.settings import Settings
from dragoman.settings.kinds import Section
from dragoman.settings.tree import SECTIONS

SOURCE = Path(dragoman.settings.__file__).parents[1]

USED_BY_RULES = {("AuthSettings", "insecure")}
"""Used where settings are checked and nowhere else: `check_exposure` asks for it."""

Attribute = tuple[str, str]


@pytest.fixture(scope="module")
def missed(tmp_path_factory: pytest.TempPathFactory) -> set[Attribute]:
    """The class and the name of every attribute that the program uses, of those taken out."""
    copy = tmp_path_factory.mktemp("source") / "dragoman"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (copy / "settings").glob("*.py"):
        _take_out(file, _settings_in)
    section = copy / "settings" / "kinds.py"
    plain = section.read_text().replace("class Section(BaseModel):", "class Section:")
    assert "class Section:" in plain, "a base that mypy does not know would have every attribute"
    section.write_text(plain)
    _take_out(copy / "observability" / "metrics.py", _metrics_in)
    # Without other packages it is quick, and what they would tell is not needed.
    quick = ("--config-file=", "--cache-dir=/dev/null", "--no-site-packages")
    lenient = ("--ignore-missing-imports", "--check-untyped-defs", "--no-error-summary")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *quick, *lenient, "dragoman"],
        cwd=copy.parent,
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1, found.stderr
    outside = [line for line in found.stdout.splitlines() if not line.startswith("dragoman/sett")]
    return set(re.findall(r'"(\w+)" has no attribute "(\w+)"', "\n".join(outside)))


def test_every_setting_is_read_by_the_program(missed: set[Attribute]) -> None:
    exist = {
        (type(section).__name__, leaf)
        for section in SECTIONS.values()
        for leaf in type(section).model_fields
        if not isinstance(getattr(section, leaf), Section)
    }
    assert len(exist) > 100, f"the fields of {Settings.__name__} were not found"
    assert exist - missed - USED_BY_RULES == set(), "use it, or leave it out"
    assert exist >= USED_BY_RULES


def test_every_metric_is_counted_by_the_program(missed: set[Attribute]) -> None:
    text = (SOURCE / "observability" / "metrics.py").read_text()
    exist = {
        ("Metrics", statement.targets[0].attr)
        for statement in _metrics_in(ast.parse(text))
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute)
    }
    assert len(exist) > 40
    assert exist - missed == set(), "count it where it happens, or leave it out"


def _take_out(file: Path, find: Callable[[ast.Module], Iterator[ast.stmt]]) -> None:
    text = file.read_text()
    lines = text.splitlines(keepends=True)
    for statement in find(ast.parse(text)):
        assert statement.end_lineno is not None
        for number in range(statement.lineno - 1, statement.end_lineno):
            lines[number] = ""
    file.write_text("".join(lines))


def _settings_in(module: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign) and _calls(node.value, "Field"):
            yield node


def _metrics_in(module: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and _calls(node.value, "make"):
            yield node


def _calls(value: ast.expr | None, name: str) -> bool:
    """Whether the expression is ``name(...)`` or ``name.something(...)``."""
    if not isinstance(value, ast.Call):
        return False
    called = value.func.value if isinstance(value.func, ast.Attribute) else value.func
    return isinstance(called, ast.Name) and called.id == name
