"""Finds the audio files that rows name, and takes them in as an import goes on."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from dragoman.lab.audio.facts import (
    HEAD_BYTES,
    BadAudio,
    file_of,
    media_type_of,
    wav_duration_ms,
)
from dragoman.lab.audio.folder import READ_BYTES, AudioFolder
from dragoman.lab.model import JsonValue, VersionId

MAX_FILE_BYTES = 1 << 30

_MOST_REMEMBERED = 10_000


class Files(Protocol):
    """Where the files of a dataset are."""

    def open(self, name: str) -> BinaryIO:
        """The file of this name; `BadAudio` if there is none."""
        ...

    def path(self, name: str) -> Path | None:
        """Where the file is on this machine; None when it is inside something else."""
        ...


class FolderFiles:
    """Files beside the dataset's own file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def open(self, name: str) -> BinaryIO:
        path = self._folder / name
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise BadAudio(f"{path} is not a file")
            return path.open("rb")
        except OSError as error:
            raise BadAudio(f"{path} cannot be read ({error.strerror})") from None

    def path(self, name: str) -> Path | None:
        return self._folder / name


class TakenFile(msgspec.Struct, frozen=True):
    """A file that was read: what it is, and where it waits."""

    sha256: str
    media_type: str
    size_bytes: int
    staged: Path | None
    """The copy that waits to be kept; None of files that are left where they are."""
    path: Path | None
    """Where the file is, if it is left there."""


class AudioIntake:
    """Takes in the files of one import; without a folder it only looks at them."""

    def __init__(
        self,
        files: Files,
        folder: AudioFolder | None = None,
        version_id: VersionId | None = None,
        *,
        copy: bool = True,
    ) -> None:
        self._files = files
        self._folder = folder if copy else None
        self._version_id = version_id
        self._links = folder is not None and not copy
        self._remembered: dict[str, dict[str, JsonValue]] = {}
        self._known: set[str] = set()
        self._fresh: list[TakenFile] = []

    @property
    def checksums(self) -> set[str]:
        """Every file so far."""
        return self._known

    def fresh(self) -> list[TakenFile]:
        """The files that came since this was last asked."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def take(self, value: JsonValue) -> dict[str, JsonValue]:
        """What the row keeps of the file that it names; `BadAudio` says why it cannot be used."""
        name, checksum = file_of(value)
        facts = self._remembered.get(name)
        if facts is None:
            facts = self._read(name)
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[name] = facts
        if checksum is not None and checksum != facts["sha256"]:
            raise BadAudio(
                f"{name} has the checksum {facts['sha256']}, and the row says {checksum}"
            )
        return facts

    def _read(self, name: str) -> dict[str, JsonValue]:
        with self._files.open(name) as file, self._staged() as (staged, copy):
            digest, head, size_bytes = hashlib.sha256(), b"", 0
            while piece := file.read(READ_BYTES):
                head = head or piece[:HEAD_BYTES]
                size_bytes += len(piece)
                if size_bytes > MAX_FILE_BYTES:
                    raise BadAudio(f"{name} is longer than {MAX_FILE_BYTES:,} bytes")
                digest.update(piece)
                if copy is not None:
                    copy.write(piece)
        sha256, media_type = digest.hexdigest(), media_type_of(name, head)
        if sha256 in self._known:
            if staged is not None:
                staged.unlink()
        else:
            self._known.add(sha256)
            path = self._files.path(name) if self._links else None
            self._fresh.append(TakenFile(sha256, media_type, size_bytes, staged, path))
        facts: dict[str, JsonValue] = {
            "file": name,
            "sha256": sha256,
            "bytes": size_bytes,
            "media_type": media_type,
        }
        duration_ms = wav_duration_ms(head, size_bytes)
        return facts if duration_ms is None else {**facts, "duration_ms": duration_ms}

    @contextmanager
    def _staged(self) -> Iterator[tuple[Path | None, BinaryIO | None]]:
        if self._folder is None or self._version_id is None:
            yield None, None
            return
        path = self._folder.incoming(self._version_id) / str(len(self._known))
        with path.open("wb") as copy:
            yield path, copy
