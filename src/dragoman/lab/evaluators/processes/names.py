"""Functions that another process can find again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.errors import InvalidMessage


def importable_name(function: Callable[..., Any]) -> str:
    """``module:function`` as another process imports it; one it cannot import is refused."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        raise InvalidMessage(
            f"`{name or function}` cannot be imported by another process, which cpu_bound needs; "
            "put it into a module of its own, at the top level.",
            details={"field": "evaluator.cpu_bound"},
        )
    return f"{module}:{name}"
