"""A dataset file of this machine, as its user names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dragoman.errors import SettingsError
from dragoman.lab.audio import FolderFiles, opened_archive, with_audio
from dragoman.lab.datasets import Format, format_of
from dragoman.lab.library.library import AudioSource
from dragoman.lab.model import JsonValue

ARCHIVE_SUFFIX = ".zip"


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file to import: a table, or a .zip of a table with its audio."""

    path: Path | str
    format: str | None = None
    """jsonl, csv or parquet; default: by the file's extension."""
    schema: Path | str | None = None
    """A file with a JSON Schema that every turn has to fit."""
    audio: tuple[str, ...] | list[str] = ()
    """Columns that name audio files below the file's folder."""
    copy: bool = True
    """Whether the lab keeps copies of the audio, or checks the files where they are."""

    @property
    def is_archive(self) -> bool:
        return Path(self.path).suffix.lower() == ARCHIVE_SUFFIX

    def read_schema(self) -> dict[str, JsonValue] | None:
        """The schema that the user gives."""
        if self.schema is None:
            return None
        try:
            text = Path(self.schema).read_text(encoding="utf-8")
            return msgspec.json.decode(text, type=dict[str, Any])
        except OSError as error:
            raise SettingsError(
                f"The schema {self.schema} cannot be read ({error.strerror})."
            ) from None
        except UnicodeDecodeError:
            raise SettingsError(f"The schema {self.schema} is not UTF-8.") from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise SettingsError(f"The schema {self.schema} is no JSON object ({error}).") from None


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table that can be imported, with what is known of it."""

    file: BinaryIO
    file_format: Format
    schema: dict[str, JsonValue] | None
    audio: AudioSource | None


@contextmanager
def opened_table(wanted: DatasetFile) -> Iterator[OpenedTable]:
    """The table of a file, open inside the block."""
    path, schema = Path(wanted.path), wanted.read_schema()
    with path.open("rb") as file:
        if not wanted.is_archive:
            audio = AudioSource(FolderFiles(path.parent), copy=wanted.copy)
            file_format = format_of(wanted.format or path.name)
            yield OpenedTable(file, file_format, with_audio(schema, wanted.audio), audio)
            return
        with opened_archive(file) as archive:
            yield OpenedTable(
                archive.table,
                format_of(wanted.format or archive.table_name),
                with_audio(schema or archive.schema, wanted.audio),
                AudioSource(archive.files),
            )
