"""What a lab does for other processes on its database: a server's lab, or one inside a program.

This is the one place where the two differ.
"""

from __future__ import annotations

import msgspec


class LabRole(msgspec.Struct, frozen=True):
    """What a lab does besides driving and working on the runs that are started in its process."""

    serves_others: bool
    """It takes up runs that other processes started or left, and starts those of the timetable."""
    is_listed: bool
    """It reports what it works on, so that others can list it."""
    hears_others: bool
    """It hears of work from other processes, through the queue of the settings."""
    keeps_mirror: bool
    """It keeps a columnar copy of the results, which is worth its while only over time."""


SERVER = LabRole(serves_others=True, is_listed=True, hears_others=True, keeps_mirror=True)
"""The lab of `dragoman serve`, and a `dragoman worker`."""

EMBEDDED = LabRole(serves_others=False, is_listed=False, hears_others=False, keeps_mirror=False)
"""The lab inside a program or a command. The functions of its runs exist only in that program, so
no server takes these runs up, and it takes up none of a server."""
