"""Recordings that a turn refers to, and recordings that a target answers with.

A column holds a recording as ``{"base64": ...}`` or as ``{"file": ..., "sha256"?: ...}``. On a
server a file is read only from the lab's own folder: a dataset comes from a user, and a user who
could name any file of the machine could have it sent to a server of their own.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from pathlib import Path

from dragoman.lab.failures import TargetError
from dragoman.lab.model import JsonValue
from dragoman.lab.openai_client import Audio
from dragoman.lab.targets.context import Context

MAX_AUDIO_BYTES = 100 * 1024 * 1024


def read_audio(value: JsonValue, column: str, context: Context) -> Audio:
    """The recording in a column; raises `TargetError` that says why there is none."""
    if isinstance(value, str) and value:
        value = {"file": value}
    if not isinstance(value, dict):
        raise _unreadable(column, 'it is neither a file name nor {"file": ...} or {"base64": ...}')
    given, name = value.get("base64"), value.get("file")
    if isinstance(given, str):
        try:
            content = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raise _unreadable(column, "its base64 is not valid") from None
        shown = name if isinstance(name, str) else f"audio.{value.get('format') or 'wav'}"
    elif isinstance(name, str):
        content = _file(name, column, context)
        shown = name
    else:
        raise _unreadable(column, "it names no file")
    wanted = value.get("sha256")
    if isinstance(wanted, str) and sha256(content).hexdigest() != wanted.lower():
        raise _unreadable(column, "its checksum is another one: the file has changed")
    return Audio(Path(shown).name or "audio.wav", content)


def as_column(content: bytes, audio_format: str) -> dict[str, JsonValue]:
    """A recording as an output column: what it is, and the recording itself."""
    return {
        "format": audio_format,
        "bytes": len(content),
        "sha256": sha256(content).hexdigest(),
        "base64": base64.b64encode(content).decode(),
    }


def _file(name: str, column: str, context: Context) -> bytes:
    try:
        path = _permitted(name, context)
        if path is None:
            raise _unreadable(column, f"{name!r} is not a file of the lab's own folder")
        if path.stat().st_size > MAX_AUDIO_BYTES:
            raise _unreadable(column, f"{name!r} is over {MAX_AUDIO_BYTES:,} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(column, f"{name!r} cannot be read ({reason})") from None


def _permitted(name: str, context: Context) -> Path | None:
    if context.audio_folder is not None:
        folder = Path(context.audio_folder).resolve()
        path = (folder / name).resolve()
        if path.is_relative_to(folder) and path.is_file():
            return path
    if context.http_allow is not None:
        return None
    return Path(context.modules or ".") / name


def _unreadable(column: str, reason: str) -> TargetError:
    return TargetError(f"The recording in `{column}` cannot be used: {reason}.", retryable=False)
