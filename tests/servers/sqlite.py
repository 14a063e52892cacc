"""SQLite files that have Dragoman's schema and nothing in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.store import upgrade

_FILE = "dragoman.db"


def fresh_sqlite(folder: Path) -> str:
    """The URL of a new file in the folder. The migrations run once; later files are copies."""
    (folder / _FILE).write_bytes(_migrated())
    return f"sqlite:///{folder}/{_FILE}"


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        upgrade(f"sqlite:///{folder}/{_FILE}")
        [file] = Path(folder).iterdir()  # nothing is left in a write-ahead log beside it
        return file.read_bytes()
