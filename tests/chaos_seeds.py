"""Which schedules the chaos tests run: fixed ones, or those that the environment names.

`make chaos` draws a first seed on every run and prints it; `make test` always runs the same ones.
"""

from __future__ import annotations

import os

ONLY = os.environ.get("DRAGOMAN_CHAOS_SEED")
"""The one schedule to run again; None: all of them."""


def chaos_seeds(schedules: int, first: int = 0) -> range:
    """The seeds of so many schedules, unless the environment asks for others."""
    first = int(os.environ.get("DRAGOMAN_CHAOS_FIRST_SEED", first))
    return range(first, first + int(os.environ.get("DRAGOMAN_CHAOS_SCHEDULES", schedules)))
