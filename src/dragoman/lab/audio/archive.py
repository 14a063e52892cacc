"""A .zip that holds a dataset's table and its audio, read without trusting what it says."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

import msgspec

from dragoman.errors import DatasetInvalid
from dragoman.lab.audio.facts import BadAudio
from dragoman.lab.audio.folder import READ_BYTES
from dragoman.lab.model import JsonValue

SCHEMA_NAME = "schema.json"
TABLES = (".jsonl", ".ndjson", ".csv", ".parquet", ".pq")

MAX_EXPANDED_BYTES = 16 << 30
MAX_DIRECTORY_BYTES = 16 << 20
"""The list of an archive's files is read as a whole, some 100 bytes for each."""
_MAX_SCHEMA_BYTES = 1 << 20
_SHOWN = 5
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""What Python raises on archives that are broken, besides the one error that says so."""


@dataclass(frozen=True, slots=True)
class Archive:
    """What an archive holds."""

    table: BinaryIO
    table_name: str
    schema: dict[str, JsonValue] | None
    files: ArchiveFiles


class ArchiveFiles:
    """The other files of an archive, by their path beside the table."""

    def __init__(self, archive: zipfile.ZipFile, folder: PurePosixPath) -> None:
        self._archive = archive
        self._folder = folder

    def open(self, name: str) -> BinaryIO:
        try:
            info = self._archive.getinfo(str(self._folder / name))
            return cast(BinaryIO, _Whole(self._archive, info))
        except KeyError:
            raise BadAudio(f"{name} is not in the archive") from None

    def path(self, name: str) -> Path | None:
        return None


@contextmanager
def opened_archive(file: BinaryIO) -> Iterator[Archive]:
    """The archive, open inside the block; `DatasetInvalid` says what is wrong with it."""
    with _opened(file) as archive, TemporaryFile() as copy:
        table = _table_of(archive)
        folder = PurePosixPath(table.filename).parent
        try:
            for piece in _pieces(archive, table):
                copy.write(piece)
            schema = _schema_of(archive, str(folder / SCHEMA_NAME))
        except BadAudio as error:
            raise _refused(str(error)) from None
        copy.seek(0)
        files = ArchiveFiles(archive, folder)
        yield Archive(cast(BinaryIO, copy), table.filename, schema, files)


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(cast(Any, _BoundedReads(file)))
    except _DAMAGE as error:
        raise _refused(f"it is not a .zip file, or is damaged ({error})") from None


class _BoundedReads:
    """Refuses to read an archive's list of files when it is too long.

    Python reads the list in one go, before any of its entries can be looked at.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek = file.seek
        self.tell = file.tell
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile("it has too many files")
        return self._file.read(size)


class _Whole(RawIOBase):
    """A file of an archive; what goes wrong on the way is told by its name."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._pieces = _pieces(archive, info)

    def read(self, size: int = -1) -> bytes:
        return next(self._pieces, b"")


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with archive.open(info) as file:
            while piece := file.read(READ_BYTES):
                yield piece
    except _DAMAGE as error:
        raise BadAudio(f"{info.filename} in the archive is damaged ({error})") from None


def _table_of(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one table; the limits hold before anything is unpacked."""
    if not all(info.filename for info in archive.infolist()):
        raise _refused("a file in it has no name")
    entries = [info for info in archive.infolist() if not info.is_dir()]
    for info in entries:
        if info.flag_bits & 1:
            raise _refused(f"{info.filename} is encrypted")
        # The others can be made to ask for gigabytes of memory.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _refused(f"{info.filename} is compressed in a way that is not read; use deflate")
    if sum(info.file_size for info in entries) > MAX_EXPANDED_BYTES:
        raise _refused(f"its files take more than {MAX_EXPANDED_BYTES:,} bytes")
    tables = [info for info in entries if _is_table(info.filename)]
    if len(tables) != 1:
        found = ", ".join(info.filename for info in tables[:_SHOWN]) or "none"
        raise _refused(
            f"it must hold one table, a .jsonl, .csv or .parquet file, and holds {found}"
        )
    return tables[0]


def _is_table(name: str) -> bool:
    path = PurePosixPath(name)
    is_litter = path.parts[:1] == ("__MACOSX",) or path.name.startswith(".")
    return path.suffix.lower() in TABLES and not is_litter


def _schema_of(archive: zipfile.ZipFile, name: str) -> dict[str, JsonValue] | None:
    try:
        info = archive.getinfo(name)
    except KeyError:
        return None
    if info.file_size > _MAX_SCHEMA_BYTES:
        raise _refused(f"{name} is longer than {_MAX_SCHEMA_BYTES:,} bytes")
    try:
        return msgspec.json.decode(b"".join(_pieces(archive, info)), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _refused(f"{name} is no JSON object ({error})") from None


def _refused(reason: str) -> DatasetInvalid:
    return DatasetInvalid(f"Nothing was imported. The archive cannot be used: {reason}.")
