"""Numbers as people read them in a comparison."""

from __future__ import annotations


def figure(value: float | None) -> str:
    """A value: four digits that matter."""
    if value is None:
        return "none"
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def signed(value: float | None) -> str:
    """A difference, which always has a sign."""
    if value is None:
        return "none"
    if abs(value) >= 10_000:
        return f"{value:+,.0f}"
    return f"{value:+.3g}" if value else "0"


def rounded(value: float) -> str:
    """A value that is an estimate: two digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"


def chance(p: float | None) -> str:
    """A p-value."""
    if p is None:
        return "none"
    return "< 0.001" if p < 0.001 else f"{p:.2g}"
