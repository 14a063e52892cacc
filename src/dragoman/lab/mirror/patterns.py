"""Patterns of `matches`, in RE2's syntax wherever they are looked for.

RE2 takes time in proportion to the text, whatever the pattern: a hostile one holds up no one.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from dragoman.errors import InvalidFilter
from dragoman.extras import is_installed, require_extra
from dragoman.lab.filters import Filter, Op, fields_of
from dragoman.lab.mirror.interface import ANSWER_SECONDS, too_slow

_LOOK = "SELECT regexp_matches($1::VARCHAR, $2::VARCHAR)"


def check_patterns(wanted: Filter) -> None:
    """Refuse patterns that are not valid, as far as this installation can tell."""
    patterns = [str(one.value) for one in fields_of(wanted) if one.op is Op.MATCHES]
    if patterns and is_installed("duckdb"):
        search = searcher()
        for pattern in patterns:
            search(pattern, "")


def searcher() -> Callable[[str, str], bool]:
    """Whether a pattern is found in a text; needs DuckDB, which brings RE2.

    All texts together may take as long as one question to a mirror.
    """
    connection: Any = None
    ends_at = monotonic() + ANSWER_SECONDS

    def search(pattern: str, text: str) -> bool:
        nonlocal connection
        require_extra("lab", "The operator `matches`")
        import duckdb

        if connection is None:
            connection = duckdb.connect()
        if monotonic() > ends_at:
            raise InvalidFilter(too_slow().message, details={"field": "matches"})
        try:
            (found,) = connection.execute(_LOOK, [text, pattern]).fetchone()
        except duckdb.InvalidInputException as error:
            raise InvalidFilter(
                f"The pattern {pattern[:100]!r} of `matches` is not valid: {error}",
                details={"field": "matches"},
            ) from None
        return bool(found)

    return search
