"""Errors that the program only logs: a task that died of an exception fails its story too."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_FORMAT = logging.Formatter()

_NO_FAULTS = frozenset({"instance_name_taken"})
"""Errors of operating, which schedules make on purpose: a second process under the same name."""


class _Kept(logging.Handler):
    """Keeps what is logged as an error, with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() in _NO_FAULTS:
            return
        fields = getattr(record, "fields", {})
        told = "".join(f" {name}={value}" for name, value in fields.items())
        trace = f"\n{_FORMAT.formatException(record.exc_info)}" if record.exc_info else ""
        self.errors.append(f"{record.name}: {record.getMessage()}{told}{trace}")


@contextmanager
def none_logged() -> Iterator[None]:
    """Fails when anything was logged as an error meanwhile, by Dragoman or by asyncio."""
    kept = _Kept()
    loggers = [logging.getLogger(name) for name in ("dragoman", "asyncio")]
    for logger in loggers:
        logger.addHandler(kept)
    try:
        yield
    except BaseException as error:
        for text in kept.errors:
            error.add_note(f"Also logged: {text}")
        raise
    finally:
        for logger in loggers:
            logger.removeHandler(kept)
    assert not kept.errors, "\n".join(["errors were logged:", *kept.errors])
