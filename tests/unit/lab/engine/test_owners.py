"""Who holds a lease, and whether that process still lives."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

from dragoman.lab.owners import is_gone, new_owner, process_of

MAKE = "from random import Random; from dragoman.lab.owners import new_owner; "


def test_a_lab_of_this_process_is_there() -> None:
    owner = new_owner(Random(1))
    assert process_of(owner) == os.getpid()
    assert not is_gone(owner)
    assert len(owner) <= 64, "it fits into its column"


def test_a_process_that_ended_is_gone() -> None:
    told = subprocess.run(
        [sys.executable, "-c", MAKE + "print(new_owner(Random(1)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    owner = told.stdout.strip()
    assert process_of(owner) is not None
    assert is_gone(owner)


def test_a_killed_process_that_its_parent_has_not_looked_after_is_gone() -> None:
    program = MAKE + "import time; print(new_owner(Random(1)), flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert not is_gone(owner)
        process.kill()
        process.stdout.read()  # ends when the process has
        while not is_gone(owner):
            pass


def test_a_process_number_that_is_used_again_is_another_process() -> None:
    own_id, machine, pid, started = new_owner(Random(1)).split("/")
    assert is_gone(f"{own_id}/{machine}/{pid}/{int(started) - 1}")


def test_of_other_machines_nothing_is_known() -> None:
    own_id, machine, _, started = new_owner(Random(1)).split("/")
    assert not is_gone(f"{own_id}/{machine[::-1]}x/999999/{started}")
    assert not is_gone("w-1234")
    assert not is_gone("")
