"""What the fuzzers say of a victim that keeps too much, and which seeds they use."""

from __future__ import annotations

import asyncio
import mmap
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.fuzz_growth import Grown, Growth, Held, held_by_family, held_here

TOTAL = 100
MEMORY_BYTES = 50_000_000
REPOSITORY = Path(__file__).parents[3]


def test_what_the_first_tenth_keeps_is_no_growth_and_what_comes_later_is() -> None:
    kept = Held(0, 0)

    def grown_to(first: Held, last: Held) -> Growth:
        nonlocal kept
        growth = Growth(lambda: kept, TOTAL, Held(1_000, 1, 1))
        for number in range(1, TOTAL + 1):
            kept = first if number <= TOTAL / 10 else last
            growth.done(number)
        return growth

    assert "1.0 MB" in grown_to(Held(10**6, 90, 80), Held(10**6 + 1_000, 91, 81)).check()
    for last in (Held(10**6 + 1_001, 90, 80), Held(10**6, 92, 80), Held(10**6, 90, 82)):
        with pytest.raises(Grown, match=r"it has grown: after the first tenth 1\.0 MB"):
            grown_to(Held(10**6, 90, 80), last).check()


def test_files_tasks_and_memory_of_this_process_are_seen() -> None:
    async def main() -> None:
        before = held_here()
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
        sleeping = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(7)]
        # Pages of its own: what other tests have freed in this process might be used again.
        memory = mmap.mmap(-1, MEMORY_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.write(b"x" * MEMORY_BYTES)
        after = held_here()
        assert after.descriptors - before.descriptors == 5
        assert after.tasks - before.tasks == 7
        assert after.memory_bytes - before.memory_bytes > MEMORY_BYTES / 2
        for task in sleeping:
            task.cancel()
        for file in files:
            os.close(file)
        memory.close()

    asyncio.run(main())


def test_a_process_is_looked_at_with_those_that_it_started() -> None:
    script = "exec 9</dev/null; sleep 600 & echo begun; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        family = held_by_family(shell.pid)
        assert family.descriptors >= 8, "each of the two has three, and the ninth"
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        for pid in (*children, str(shell.pid)):
            subprocess.run(["kill", pid], check=True)


def seeds(*arguments: str) -> set[str]:
    """Those that `make fuzz` would give to its parts."""
    shown = subprocess.run(
        ["make", "--dry-run", "fuzz", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    parts = re.findall(r"-m tests\.fuzz_\w+ .*--seed (\d+)", shown)
    assert len(parts) == 4, shown
    assert f"The seed is {parts[0]}." in shown
    return set(parts)


def test_make_fuzz_draws_a_seed_that_its_parts_share_unless_it_is_told_one() -> None:
    first, second = seeds(), seeds()
    assert len(first) == len(second) == 1
    assert first != second
    assert seeds("FUZZ_SEED=7") == {"7"}
