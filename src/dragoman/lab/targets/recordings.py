"""Recordings that a turn refers to, and recordings that a target answers with.

A column holds a recording as ``{"base64": ...}``, as ``{"file": ..., "sha256"?: ...}``, or as an
object with the `path` of a file that the lab keeps. A server reads no file that a row merely names:
a dataset comes from a user, and a user who could name any file of the machine could have it sent to
a server of their own.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from dragoman.lab.failures import TargetError
from dragoman.lab.model import JsonValue
from dragoman.lab.plugins import Context
from dragoman.openai_client import Audio

MAX_AUDIO_BYTES = 100 * 1024 * 1024


def read_audio(value: JsonValue, column: str, context: Context) -> Audio:
    """The recording in a column; raises `TargetError` that says why there is none."""
    kept = getattr(value, "path", None)
    if isinstance(value, str) and value:
        value = {"file": value}
    if not isinstance(value, Mapping):
        raise _unreadable(column, 'it is neither a file name nor {"file": ...} or {"base64": ...}')
    given, name = value.get("base64"), value.get("file")
    if isinstance(kept, Path):
        content, shown = _file(kept, column), str(name or kept.name)
    elif isinstance(given, str):
        try:
            content = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raise _unreadable(column, "its base64 is not valid") from None
        shown = name if isinstance(name, str) else f"audio.{value.get('format') or 'wav'}"
    elif not isinstance(name, str):
        raise _unreadable(column, "it names no file")
    elif context.http_allow is not None:
        raise _unreadable(column, "a server reads no file that a row names; import it as audio")
    else:
        content, shown = _file(Path(context.modules or ".") / name, column), name
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


def _file(path: Path, column: str) -> bytes:
    try:
        if path.stat().st_size > MAX_AUDIO_BYTES:
            raise _unreadable(column, f"{path.name!r} is over {MAX_AUDIO_BYTES:,} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(column, f"{path.name!r} cannot be read ({reason})") from None


def _unreadable(column: str, reason: str) -> TargetError:
    return TargetError(f"The recording in `{column}` cannot be used: {reason}.", retryable=False)
