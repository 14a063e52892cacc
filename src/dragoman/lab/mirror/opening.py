"""Which mirror a URL names."""

from __future__ import annotations

from pathlib import Path

from dragoman.extras import is_installed, require_extra
from dragoman.lab.mirror.clickhouse_mirror import ClickHouseMirror
from dragoman.lab.mirror.interface import Mirror

_DUCKDB = "duckdb:///"
DEFAULT_FILE = "lab.duckdb"


def is_wanted(url: str) -> bool:
    """Whether there is to be a mirror.

    The default asks for one where DuckDB is installed; any other address is meant as it stands.
    """
    if not url:
        return False
    if not url.startswith(_DUCKDB):
        return True
    if Path(url).name == DEFAULT_FILE and not all(map(is_installed, ("duckdb", "pyarrow"))):
        return False
    require_extra("lab", f"lab.analytics_url = {url!r}")
    return True


def open_mirror(url: str) -> Mirror:
    """Open the mirror that the URL names."""
    if not url.startswith(_DUCKDB):
        return ClickHouseMirror(url)
    # Imported here: an optional part.
    from dragoman.lab.mirror.duckdb_mirror import DuckDbMirror

    return DuckDbMirror(Path(url.removeprefix(_DUCKDB)))
