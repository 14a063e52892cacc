"""Who holds something in the database: a process, told apart from others and known when gone."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from random import Random

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_SUFFIX_BITS = 24
_START_FIELD = 19
"""Where the start time stands in `/proc/PID/stat`, counted behind the command's name."""


def this_process() -> str:
    """The process that asks; another process on this machine can tell whether it is gone."""
    pid = os.getpid()
    return f"p-{_machine()}-{pid}-{_started(pid)}"


def new_owner(random: Random) -> str:
    """One of several owners in this process."""
    return f"{this_process()}-{random.getrandbits(_SUFFIX_BITS):06x}"


def is_gone(owner: str) -> bool:
    """Whether the owner was a process of this machine and is one no more.

    False of a process elsewhere, and of an owner that is no process: a lease decides about those.
    """
    kind, _, rest = owner.partition("-")
    machine, _, process = rest.partition("-")
    pid, _, rest = process.partition("-")
    started, _, _ = rest.partition("-")
    if kind != "p" or machine != _machine() or not pid.isdigit():
        return False
    return _started(int(pid)) != started


@lru_cache(maxsize=1)
def _machine() -> str:
    """This machine since it was started; two containers on it are two machines."""
    try:
        since = _BOOT_ID.read_text() + os.readlink(_PID_NAMESPACE)
    except OSError:
        since = ""
    return blake2b(f"{socket.gethostname()} {since}".encode(), digest_size=6).hexdigest()


def _started(pid: int) -> str:
    """When the process was started, as the system counts; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "" if _BOOT_ID.exists() or not _answers(pid) else "running"
    except OSError:
        return "running"
    state, *fields = stat.rpartition(") ")[2].split()
    # A process that has ended and that its parent has not taken note of is gone, too.
    return "" if state == "Z" else fields[_START_FIELD - 1]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
