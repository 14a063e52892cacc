"""A dataset file as it is sent to a lab, together with the audio that its rows name."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from tempfile import TemporaryFile
from types import TracebackType
from typing import BinaryIO, cast

import msgspec

from dragoman.errors import DatasetInvalid, SettingsError
from dragoman.lab.audio import BadAudio, FolderFiles, audio_columns, file_of, with_audio
from dragoman.lab.datasets import DatasetReader, Format, format_of
from dragoman.lab.library import DatasetFile
from dragoman.lab.model import JsonValue


@dataclass(slots=True)
class SentForm:
    """The fields and the file of a form; closed when it has been sent."""

    content: BinaryIO
    file_name: str
    fields: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> SentForm:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.content.close()


def sent_form(wanted: DatasetFile, *, is_local: bool) -> SentForm:
    """The form. A lab in this program reads the audio itself; a server is sent an archive of it."""
    schema = wanted.read_schema()
    columns = audio_columns(with_audio(schema, wanted.audio))
    fields = {
        "format": wanted.format,
        "schema": None if schema is None else msgspec.json.encode(schema).decode(),
        "audio": ",".join(wanted.audio) or None,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    path = Path(wanted.path)
    if not columns or wanted.is_archive:
        return SentForm(path.open("rb"), path.name, given)
    if is_local:
        given["audio_folder"] = str(path.parent.absolute())
        given["audio_copy"] = "true" if wanted.copy else "false"
        return SentForm(path.open("rb"), path.name, given)
    if not wanted.copy:
        raise SettingsError(
            "A server keeps copies of the audio that it is sent; leave out --no-copy, or use a lab "
            "without a server, with --data-dir."
        )
    given.pop("format", None)
    archive = _archive(path, format_of(wanted.format or path.name), columns)
    return SentForm(archive, "dataset.zip", given)


def _archive(path: Path, file_format: Format, columns: tuple[str, ...]) -> BinaryIO:
    """The table and its audio in one file."""
    files = FolderFiles(path.parent)
    made = TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        with zipfile.ZipFile(made, "w") as archive:
            archive.write(path, f"items.{file_format}")
            for name in _named(path, file_format, columns):
                # What is not there is told by the lab, with the row that names it.
                with (
                    suppress(BadAudio),
                    files.open(name) as file,
                    archive.open(name, "w", force_zip64=True) as entry,
                ):
                    copyfileobj(file, entry)
    except BaseException:
        made.close()
        raise
    made.seek(0)
    return cast(BinaryIO, made)


def _named(path: Path, file_format: Format, columns: tuple[str, ...]) -> Iterator[str]:
    """Every audio file that the rows name, once."""
    known: set[str] = set()
    with path.open("rb") as file, suppress(DatasetInvalid):
        for batch in DatasetReader(file, file_format):
            for turn in (turn for turns in batch for turn in turns):
                for name in _names_in(turn, columns):
                    if name not in known:
                        known.add(name)
                        yield name


def _names_in(turn: Mapping[str, JsonValue], columns: tuple[str, ...]) -> Iterator[str]:
    for column in columns:
        if turn.get(column) is not None:
            with suppress(BadAudio):
                yield str(PurePosixPath(file_of(turn[column])[0]))
