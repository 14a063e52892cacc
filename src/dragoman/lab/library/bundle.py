"""Writes a dataset version with its audio as a .zip, which can be imported again."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.audio import SCHEMA_NAME, AudioChanged, AudioFolder, audio_columns
from dragoman.lab.datasets import Format
from dragoman.lab.library.export import exported, pages
from dragoman.lab.library.library import Library
from dragoman.lab.library.pieces import Pieces
from dragoman.lab.model import DatasetVersion, Item

_READ_BYTES = 1 << 20


def bundled(
    library: Library, folder: AudioFolder, version: DatasetVersion, file_format: Format
) -> AsyncIterator[bytes]:
    """The archive in pieces: the table, its schema, and each audio file under its own path."""
    table = exported(library, version, file_format)
    return _Bundle(library, folder, version).pieces(table, f"items.{file_format}")


class _Bundle:
    """An archive on its way; audio hardly gets smaller, so that nothing is compressed."""

    def __init__(self, library: Library, folder: AudioFolder, version: DatasetVersion) -> None:
        self._library = library
        self._folder = folder
        self._version = version
        self._out = Pieces()
        self._archive = zipfile.ZipFile(self._out, "w")

    async def pieces(self, table: AsyncIterator[bytes], table_name: str) -> AsyncIterator[bytes]:
        self._archive.writestr(SCHEMA_NAME, msgspec.json.encode(self._version.schema))
        with self._archive.open(table_name, "w", force_zip64=True) as entry:
            async for piece in table:
                await asyncio.to_thread(entry.write, piece)
                yield self._out.taken()
        columns = audio_columns(self._version.schema)
        written: set[str] = set()
        async for items in pages(self._library, self._version):
            for name, sha256 in _files_of(items, columns):
                if name in written:
                    continue
                written.add(name)
                try:
                    path = await asyncio.to_thread(self._folder.find, sha256)
                except AudioChanged as error:
                    raise InvalidMessage(_unusable(name, error)) from None
                async for piece in self._file(name, path):
                    yield piece
        self._archive.close()
        yield self._out.taken()

    async def _file(self, name: str, path: Path) -> AsyncIterator[bytes]:
        with path.open("rb") as file, self._archive.open(name, "w", force_zip64=True) as entry:
            while piece := await asyncio.to_thread(file.read, _READ_BYTES):
                await asyncio.to_thread(entry.write, piece)
                yield self._out.taken()


def _unusable(name: str, error: AudioChanged) -> str:
    return f"The audio file {name} cannot be used: {error}."


def _files_of(items: Sequence[Item], columns: Iterable[str]) -> Iterable[tuple[str, str]]:
    for item in items:
        for turn in item.turns:
            for column in columns:
                facts = turn.get(column)
                if isinstance(facts, Mapping):
                    yield str(facts["file"]), str(facts["sha256"])
