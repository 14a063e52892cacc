"""Several processes on one database, and processes that are killed while they write."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

from tests.integration.store.notes import whole_notes

from dragoman.store import find_damage, open_store

ROOT = Path(__file__).parents[3]
KILLS = 4
SUBMITTERS = 50


def start_child(
    database_url: str, prefix: str, submitters: int, notes_each: int
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.integration.store.writing_child"]
    arguments = [database_url, prefix, str(submitters), str(notes_each)]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stored_notes(database_url: str) -> set[str]:
    async def look() -> set[str]:
        async with await open_store(database_url) as store:
            return await whole_notes(store)

    return asyncio.run(look())


def test_a_killed_writer_loses_nothing_that_it_acknowledged(empty_url: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    dice = random.Random(seed)
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        with start_child(empty_url, f"kill{kill}", SUBMITTERS, 10_000) as child:
            assert child.stdout is not None
            for _ in range(dice.randint(1, 300)):
                acknowledged.add(child.stdout.readline().strip())
            child.kill()
            # Lines that were on their way are acknowledgements too; the last may be cut short.
            rest = child.stdout.read()
            acknowledged.update(rest[: rest.rfind("\n") + 1].split())
        stored = stored_notes(empty_url)
        assert "" not in acknowledged, "the child ended by itself"
        assert acknowledged <= stored, f"seed {seed}, kill {kill}"
    assert find_damage(empty_url) == []


def test_processes_that_start_together_on_a_new_database_all_write(empty_url: str) -> None:
    """They race for the switch to WAL, for the migration, and then for every transaction."""
    children = [start_child(empty_url, f"child{number}", 5, 20) for number in range(3)]
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors
        assert "locked" not in errors
    assert len(stored_notes(empty_url)) == 3 * 5 * 20
