"""Logging as named events with fields, on the standard library's loggers."""

from __future__ import annotations

import logging
import os
import sys
from typing import Literal, TextIO

from cachetools import FIFOCache

from dragoman.clock import Clock, SystemClock
from dragoman.observability.formats import ConsoleFormatter, JsonFormatter
from dragoman.observability.redaction import RedactionFilter

LogFormat = Literal["console", "json"]

_LIMITED_KEYS_MAX = 1_000
"""How many rate-limited warnings a log remembers; the one that warned longest ago goes first."""


class Log:
    """Writes events: ``log.info("node_registered", node_id=node_id, services=3)``.

    Event names are snake_case and fixed; what varies goes into fields. A field whose name is a
    Python keyword is written with a trailing underscore (``from_=``), which the log drops.
    """

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._limited: FIFOCache[tuple[str, str], _Limited] = FIFOCache(_LIMITED_KEYS_MAX)

    def debug(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error with the traceback of the exception being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, event, fields, with_traceback=True)

    def warning_limited(
        self, event: str, /, *, key: str, every_seconds: float, **fields: object
    ) -> None:
        """A warning written at most once in `every_seconds` for each event and key.

        The next one that is written says in `suppressed` how many were not.
        """
        if not self._logger.isEnabledFor(logging.WARNING):
            return
        now = self._clock.monotonic()
        limited = self._limited.get((event, key))
        if limited is not None and now - limited.written_at < every_seconds:
            limited.suppressed += 1
            return
        suppressed = 0 if limited is None else limited.suppressed
        self._limited[event, key] = _Limited(written_at=now)
        if suppressed:
            fields["suppressed"] = suppressed
        self._write(logging.WARNING, event, fields)

    def _write(
        self, level: int, event: str, fields: dict[str, object], *, with_traceback: bool = False
    ) -> None:
        named = {name.removesuffix("_"): value for name, value in fields.items()}
        self._logger.log(
            level, "%s", event, extra={"fields": named}, exc_info=with_traceback, stacklevel=3
        )


class _Limited:
    """When a limited warning was last written, and how many were not since."""

    __slots__ = ("suppressed", "written_at")

    def __init__(self, written_at: float) -> None:
        self.written_at = written_at
        self.suppressed = 0


def get_logger(name: str, clock: Clock | None = None) -> Log:
    """The log of one module; the clock only times its limited warnings."""
    return Log(logging.getLogger(name), clock or SystemClock())


class _DragomanHandler(logging.StreamHandler[TextIO]):
    """Marks the one handler that `configure_logging` owns, so that it can replace it."""


def configure_logging(level: str, format: LogFormat, stream: TextIO | None = None) -> None:  # noqa: A002
    """Send every event of this process to one stream, cleaned of secrets.

    Calling it again replaces what the last call set up. Other libraries are never heard below
    INFO, whatever the level: their debug lines quote whole frames, and frames hold what people say.
    """
    stream = stream or sys.stderr
    handler = _DragomanHandler(stream)
    handler.addFilter(RedactionFilter())
    handler.setFormatter(
        JsonFormatter() if format == "json" else ConsoleFormatter(colour=_wants_colour(stream))
    )
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _DragomanHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    chosen = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(chosen, logging.INFO))
    logging.getLogger("dragoman").setLevel(chosen)


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ
