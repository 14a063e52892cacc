"""Who holds a lease: a process, named so that others on its machine can tell whether it lives."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from random import Random

from dragoman.ids import new_id

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_MACHINE_CHARACTERS = 12
_START_TIME_FIELD = 19
"""The field of /proc/PID/stat, counted behind the name, that says when the process started."""


def new_owner(random: Random) -> str:
    """A name for a lab in this process: ``w-ID/MACHINE/PID/START``, or ``w-ID`` elsewhere."""
    return _in_this_process(new_id(random, "w"))


def this_process() -> str:
    """A name for the process itself, for leases that it holds only once."""
    return _in_this_process("p")


def process_of(owner: str) -> int | None:
    """The process that the owner is, if it is one of this machine and since its last start."""
    parts = owner.split("/")
    if len(parts) != 4 or parts[1] != _machine() or not parts[2].isdigit():
        return None
    return int(parts[2])


def is_gone(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended; False when in doubt."""
    pid = process_of(owner)
    if pid is None:
        return False
    started = _started(pid)
    return started != owner.split("/")[3] and not (started is None and _answers(pid))


def _in_this_process(name: str) -> str:
    machine, started = _machine(), _started(os.getpid())
    if machine is None or started is None:
        return name
    return f"{name}/{machine}/{os.getpid()}/{started}"


@lru_cache(maxsize=1)
def _machine() -> str | None:
    """This machine since it was started, as far as process ids mean the same; None if unknown.

    Containers share the machine and have process ids of their own, hence the namespace.
    """
    try:
        known = f"{_BOOT_ID.read_text().strip()} {os.readlink(_PID_NAMESPACE)}"
    except OSError:
        return None
    return hashlib.sha256(known.encode()).hexdigest()[:_MACHINE_CHARACTERS]


def _started(pid: int) -> str | None:
    """When the process started, in ticks; empty once it has ended, None if it cannot be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may hold anything; what follows is the state, and numbers.
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[_START_TIME_FIELD - 1]


def _answers(pid: int) -> bool:
    """Whether there is such a process, though it may be hidden from this user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
