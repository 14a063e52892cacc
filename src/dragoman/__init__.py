"""One scheduler for live speech translation and for the experiments that improve it.

A program imports from here what it needs::

    from dragoman import Node, lab, talk

`Node` does the work of a fleet, `talk` opens a session, `lab` runs experiments. `dragoman.sdk` has
the rest of what nodes and sessions use, and `dragoman.testing` a scheduler in memory for tests.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.version import __version__

if TYPE_CHECKING:
    from dragoman import lab
    from dragoman.sdk import (
        Answer,
        Job,
        JobFailed,
        Missing,
        ModelMissing,
        Node,
        Result,
        SessionClient,
        SessionOptions,
        SyncSession,
        TranslationResult,
        talk,
    )

__all__ = [
    "Answer",
    "Job",
    "JobFailed",
    "Missing",
    "ModelMissing",
    "Node",
    "Result",
    "SessionClient",
    "SessionOptions",
    "SyncSession",
    "TranslationResult",
    "__version__",
    "lab",
    "talk",
]


if not TYPE_CHECKING:  # mypy would take every name for one that is there

    def __getattr__(name: str) -> Any:
        # Found when asked for: `dragoman --version` must not wait for the whole SDK.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "lab":
            return import_module("dragoman.lab")
        return getattr(import_module("dragoman.sdk"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
