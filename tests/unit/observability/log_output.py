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


@contextmanager
def logging_to(level: str, log_format: LogFormat) -> Iterator[LogOutput]:
    """Logging as the server sets it up, but into memory; put back as it was afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("dragoman")
    handlers, root_level, our_level = list(root.handlers), root.level, ours.level
    output = LogOutput()
    root.handlers.clear()
    configure_logging(level, log_format, output.stream)
    try:
        yield output
    finally:
        root.handlers[:] = handlers
        root.setLevel(root_level)
        ours.setLevel(our_level)
