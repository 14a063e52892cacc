"""Tables for pandas and polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dragoman.errors import ExtraMissing
from dragoman.extras import require_extra


def data_frame(rows: Sequence[Mapping[str, Any]], library: str) -> Any:
    """The rows as a DataFrame of `pandas` or `polars`."""
    if library == "polars":
        if find_spec("polars") is None:
            raise ExtraMissing(
                "to_polars() needs the Python package polars, which is not installed; run "
                "`pip install polars`."
            )
        # Columns may hold numbers in one row and text in another, as inputs do.
        return import_module("polars").DataFrame(
            [dict(row) for row in rows], infer_schema_length=None, strict=False
        )
    require_extra("lab", "to_pandas()", ["pandas"])
    return import_module("pandas").DataFrame([dict(row) for row in rows])
