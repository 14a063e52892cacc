"""Imports without the search for reference cycles, which takes a third of a start."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """Imports make objects by the hundred thousand and no garbage: nothing is to be found."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_what_was_imported() -> None:
    """Leave everything that exists out of later searches, the one at the end of the process too.

    For a process that is a command. In a larger program it would keep that program's garbage.
    """
    gc.freeze()
