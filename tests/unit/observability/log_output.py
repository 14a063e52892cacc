"""What was written to the log, as text and as objects."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.observability import LogFormat, configure_logging


class LogOutput:
    """The lines of one log, read back."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


_SET_BY_OTHERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets.server")
"""Loggers whose levels are set by servers that other tests of this process start."""


@contextmanager
def logging_to(level: str, log_format: LogFormat) -> Iterator[LogOutput]:
    """Logging as the server sets it up, but into memory; put back as it was afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("dragoman")
    handlers, root_level, our_level = list(root.handlers), root.level, ours.level
    libraries = [logging.getLogger(name) for name in _SET_BY_OTHERS]
    levels = [library.level for library in libraries]
    for library in libraries:
        library.setLevel(logging.NOTSET)
    output = LogOutput()
    root.handlers.clear()
    configure_logging(level, log_format, output.stream)
    try:
        yield output
    finally:
        root.handlers[:] = handlers
        root.setLevel(root_level)
        ours.setLevel(our_level)
        for library, level_before in zip(libraries, levels, strict=True):
            library.setLevel(level_before)
