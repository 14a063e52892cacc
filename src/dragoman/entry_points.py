"""What installed packages add to Dragoman, by the entry points that they name.

Looking for them reads a file of every package that is installed, which takes as long as the rest of
a small command. They are looked for again once a folder of the import path has changed.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import cast


def added_to(group: str) -> EntryPoints:
    """The entry points of this group, of every package that can be imported now."""
    return _all_of(tuple((folder, _changed_ns(folder)) for folder in sys.path)).select(group=group)


@lru_cache(maxsize=1)
def _all_of(folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    # Python 3.11 answers with another class, which selects alike.
    return cast("EntryPoints", entry_points())


def _changed_ns(folder: str) -> int:
    """When a package was last added to the folder or taken away; 0 where there is none."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0
