"""Regular expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.lab.scoring.outcome import Measure, Unscorable

MAX_PATTERN_CHARACTERS = 10_000


def pattern_problem(pattern: str) -> str | None:
    """Why a pattern cannot be used; None if it can."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        return f"it has {len(pattern):,} characters; at most {MAX_PATTERN_CHARACTERS:,} are allowed"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error) or "it is nested too deeply"
    return None


def search(
    output: str, references: Sequence[str], *, whole: bool, ignore_case: bool, multiline: bool
) -> Measure:
    """1 when the pattern, which is the reference, is found in the output; 0 otherwise.

    `whole`: it has to match all of the output.
    """
    [pattern] = references
    if (problem := pattern_problem(pattern)) is not None:
        raise Unscorable(f"the pattern {pattern[:100]!r} cannot be used: {problem}")
    flags = (re.IGNORECASE if ignore_case else 0) | (re.MULTILINE | re.DOTALL if multiline else 0)
    compiled = re.compile(pattern, flags)
    found = compiled.fullmatch(output) if whole else compiled.search(output)
    if found is None:
        where = "does not match all of the output" if whole else "is not found in the output"
        return Measure(0.0, reason=f"{pattern[:100]!r} {where}")
    return Measure(1.0)
