"""Starting a command: no time is lost on searches for garbage that imports do not make."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.cli.importing import no_search_for_cycles

COMMAND = """
import gc, sys
from dragoman.cli import main
before = gc.get_stats()[2]["collections"]
sys.argv = ["dragoman", "experiment", "--help"]
code = main()
print("searches:", gc.get_stats()[2]["collections"] - before, "kept:", gc.get_freeze_count() > 0)
sys.exit(code)
"""
LAB_CHILD = """
import gc
from dragoman.cli import main
before = gc.get_stats()[2]["collections"]
import dragoman.cli.lab_child
print("searches:", gc.get_stats()[2]["collections"] - before, "enabled:", gc.isenabled())
"""
SERVERS = """
import sys
import dragoman.cli.serve, dragoman.cli.lab_child
heavy = {"duckdb", "numpy", "pandas", "pyarrow", "sacrebleu", "scipy"}
print("imported:", sorted(heavy & sys.modules.keys()))
"""


def last_line(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def test_a_command_starts_without_a_search_of_everything(tmp_path: Path) -> None:
    assert last_line(COMMAND, tmp_path) == "searches: 0 kept: True"


def test_the_lab_process_starts_without_a_search_of_everything(tmp_path: Path) -> None:
    assert last_line(LAB_CHILD, tmp_path) == "searches: 0 enabled: True"


def test_no_server_imports_what_only_some_experiments_need(tmp_path: Path) -> None:
    assert last_line(SERVERS, tmp_path) == "imported: []"


def test_a_program_that_calls_the_command_keeps_its_own_collector(
    capsys: pytest.CaptureFixture[str],
) -> None:
    frozen = gc.get_freeze_count()
    assert main(["experiment", "--help"]) == 0
    assert capsys.readouterr().out
    assert gc.isenabled()
    # Frozen objects may die meanwhile; none is added.
    assert gc.get_freeze_count() <= frozen


def test_a_failed_import_leaves_the_collector_as_it_was_found() -> None:
    with pytest.raises(ImportError), no_search_for_cycles():
        fail_without_searches()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_search_for_cycles():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def fail_without_searches() -> None:
    assert not gc.isenabled()
    raise ImportError
