"""Whether a dataset has the columns that settings name."""

from __future__ import annotations

from collections.abc import Collection

from dragoman.errors import SchemaMismatch


def require_column(name: str, columns: Collection[str], where: str) -> None:
    """Refuse a column that the dataset does not have, and say what to do."""
    if name in columns:
        return
    raise SchemaMismatch(
        f"`{where}` uses the column `{name}`, which the dataset does not have; it has "
        f"{', '.join(columns) or 'none'}. Name one of these, or map it: "
        f'mapping = {{ "{name}" = "..." }}.',
        details={"field": where, "column": name},
    )
