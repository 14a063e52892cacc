"""What is known of an audio file, and how a row refers to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from dragoman.lab.model import JsonValue

AUDIO = "audio"
"""The `format` that a JSON-schema gives to columns of audio."""

HEAD_BYTES = 64 * 1024
"""The beginning of a file, which tells what it is."""

_MAX_NAME_CHARACTERS = 1_000
_BY_SUFFIX = {
    ".aac": "audio/aac",
    ".amr": "audio/amr",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".mp4": "audio/mp4",
    ".oga": "audio/ogg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".wav": "audio/wav",
    ".webm": "audio/webm",
}
_BY_BEGINNING: tuple[tuple[int, bytes, str], ...] = (
    (8, b"WAVE", "audio/wav"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (4, b"ftyp", "audio/mp4"),
    (0, b"\x1aE\xdf\xa3", "audio/webm"),
    (0, b"#!AMR", "audio/amr"),
)


class BadAudio(Exception):
    """Raised when what a row refers to cannot be used."""


class AudioFile(dict[str, JsonValue]):
    """An audio file of a dataset, as targets get it.

    It is the row's value (`file`, `sha256`, `bytes`, `media_type` and, of a WAV file,
    `duration_ms`), and it can be opened like a path: ``open(audio, "rb")``.
    """

    def __init__(self, facts: Mapping[str, JsonValue], path: Path) -> None:
        super().__init__(facts)
        self.path = path
        """Where the bytes are, in a file that is named by its checksum."""

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The file's own name, without folders."""
        return PurePosixPath(str(self["file"])).name

    @property
    def sha256(self) -> str:
        return str(self["sha256"])

    @property
    def media_type(self) -> str:
        return str(self["media_type"])

    @property
    def duration_ms(self) -> int | None:
        found = self.get("duration_ms")
        return found if isinstance(found, int) else None


def audio_columns(schema: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """The columns that a schema declares as audio."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return ()
    return tuple(
        name
        for name, declared in properties.items()
        if isinstance(declared, Mapping) and declared.get("format") == AUDIO
    )


def with_audio(
    schema: Mapping[str, JsonValue] | None, columns: Iterable[str]
) -> dict[str, JsonValue] | None:
    """The schema with these columns as audio, too."""
    named = list(columns)
    if not named:
        return None if schema is None else dict(schema)
    given = dict(schema or {})
    declared = given.get("properties")
    properties: dict[str, Any] = dict(declared) if isinstance(declared, Mapping) else {}
    for name in named:
        before = properties.get(name)
        properties[name] = {**(before if isinstance(before, Mapping) else {}), "format": AUDIO}
    return {**given, "properties": properties}


def as_stored(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The schema of the rows once their audio is known: each file is an object."""
    columns = audio_columns(schema)
    declared = schema.get("properties")
    if not columns or not isinstance(declared, Mapping):
        return schema
    properties = {
        name: {**part, "type": _stored_type(part.get("type"))}
        if name in columns and isinstance(part, Mapping)
        else part
        for name, part in declared.items()
    }
    return {**schema, "properties": properties}


def _stored_type(given: JsonValue) -> JsonValue:
    words = given if isinstance(given, list) else [given]
    return ["null", "object"] if None in words or "null" in words else "object"


def file_of(value: JsonValue) -> tuple[str, str | None]:
    """The file that a row's value names, and the checksum it must have, if the row says so.

    The name is a path below the folder of the dataset's file, or inside the archive.
    """
    checksum: JsonValue = None
    name = value
    if isinstance(value, Mapping):
        name, checksum = value.get("file"), value.get("sha256")
    if not isinstance(name, str) or not name:
        raise BadAudio("expected the path of an audio file, such as clips/1.wav")
    if checksum is not None and not isinstance(checksum, str):
        raise BadAudio("`sha256` must be text")
    shown = name if len(name) <= _MAX_NAME_CHARACTERS else f"{name[:100]}..."
    path = PurePosixPath(name)
    if (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or not name.isprintable()
        or len(name) > _MAX_NAME_CHARACTERS
        or str(path) == "."
    ):
        raise BadAudio(
            f"{shown!r} is not a path below the dataset's folder; keep the audio in or under that "
            "folder, and write paths with / and without .."
        )
    return str(path), checksum


def media_type_of(name: str, head: bytes) -> str:
    """The media type by the file's beginning, else by its name."""
    for offset, mark, media_type in _BY_BEGINNING:
        if head[offset : offset + len(mark)] == mark:
            return media_type
    found = _BY_SUFFIX.get(PurePosixPath(name).suffix.lower())
    if found is None:
        raise BadAudio(f"{name} is no audio file known here ({', '.join(sorted(set(_BY_SUFFIX)))})")
    return found


def wav_duration_ms(head: bytes, size_bytes: int) -> int | None:
    """How long a WAV file plays, as far as its header tells."""
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return None
    at, bytes_a_second = 12, 0
    while at + 8 <= len(head):
        name, length = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if name == b"fmt ":
            bytes_a_second = int.from_bytes(head[at + 16 : at + 20], "little")
        elif name == b"data":
            # A recorder that was cut off leaves a length that the file does not have.
            there = min(length, size_bytes - at - 8)
            return round(there * 1000 / bytes_a_second) if bytes_a_second else None
        at += 8 + length + length % 2
    return None
