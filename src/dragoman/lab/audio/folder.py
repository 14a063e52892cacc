"""The folder of audio files, each under its checksum: kept once, however many rows name it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dragoman.lab.model import VersionId

READ_BYTES = 1 << 20

_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_ASIDE = ".aside"
_INCOMING = "incoming"
_MOST_CHECKED = 10_000


class AudioChanged(Exception):
    """Raised when a file that was left where it is is not there, or not the same any more."""


def audio_folder_of(data_dir: Path) -> AudioFolder:
    """The folder of a lab's audio."""
    return AudioFolder(data_dir / "lab-audio")


class AudioFolder:
    """Files by checksum. A file that was not copied is a link to where it is."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._checked: dict[Path, tuple[tuple[int, int, int], str]] = {}

    # --- bringing in ----------------------------------------------------------------------------

    def incoming(self, version_id: VersionId) -> Path:
        """Where an import keeps files until the database knows them."""
        folder = self._root / _INCOMING / version_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def drop_incoming(self, version_id: VersionId) -> None:
        """Remove what an import did not get to place."""
        shutil.rmtree(self._root / _INCOMING / version_id, ignore_errors=True)

    def keep(self, sha256: str, staged: Path) -> None:
        """Keep a copy; one that is there already stays."""
        final = self._path(sha256)
        if final.is_file() and not final.is_symlink():
            staged.unlink()
            return
        final.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(final)

    def link(self, sha256: str, path: Path) -> None:
        """Note where a file is that is not copied; a copy that is there already stays."""
        final = self._path(sha256)
        if final.is_file() and not final.is_symlink():
            return
        final.parent.mkdir(parents=True, exist_ok=True)
        made = final.with_name(f"{sha256}.{os.getpid()}.link")
        made.unlink(missing_ok=True)
        made.symlink_to(path)
        made.replace(final)

    # --- using ----------------------------------------------------------------------------------

    def find(self, sha256: str) -> Path:
        """The file of this checksum; one that was left where it is is checked first."""
        path = self._path(sha256)
        if not path.is_symlink():
            if not path.is_file():
                raise AudioChanged(
                    f"the copy of the audio file {sha256} is not in the lab's data folder; import "
                    "the dataset again"
                )
            return path
        there = path.resolve()
        try:
            facts = there.stat()
            mark = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
            known = self._checked.get(there)
            if known is None or known[0] != mark:
                known = (mark, sha256_of(there))
                if len(self._checked) >= _MOST_CHECKED:
                    self._checked.clear()
                self._checked[there] = known
        except OSError as error:
            raise AudioChanged(f"{there} cannot be read ({error.strerror})") from None
        if known[1] != sha256:
            raise AudioChanged(
                f"{there} has changed since it was imported; import the dataset again"
            )
        return there

    def copy_to(self, folder: Path) -> int:
        """Copy every file to another folder of this kind; returns how many there were.

        What is under a checksum never changes, so a lab may go on meanwhile. A file that goes away
        meanwhile belonged to a dataset that was deleted.
        """
        copied = 0
        for sha256 in self.checksums():
            target = AudioFolder(folder)._path(sha256)
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                shutil.copy2(self._path(sha256), target, follow_symlinks=False)
                copied += 1
        return copied

    # --- freeing --------------------------------------------------------------------------------

    def imports(self) -> list[VersionId]:
        """The imports that have files waiting."""
        with suppress(FileNotFoundError):
            return [VersionId(one.name) for one in (self._root / _INCOMING).iterdir()]
        return []

    def checksums(self) -> Iterator[str]:
        """Every file that is kept, linked, or was set aside and forgotten."""
        with suppress(FileNotFoundError):
            for part in sorted(self._root.iterdir()):
                if part.name == _INCOMING or not part.is_dir():
                    continue
                for file in sorted(part.iterdir()):
                    name = file.name.removesuffix(_ASIDE)
                    if _CHECKSUM.fullmatch(name):
                        yield name

    def set_aside(self, sha256: str) -> None:
        """Take a file away that seems not to be used, to be put back if it is."""
        with suppress(FileNotFoundError):
            self._path(sha256).replace(self._aside(sha256))

    def put_back(self, sha256: str) -> None:
        with suppress(FileNotFoundError):
            if os.path.lexists(self._path(sha256)):
                self._aside(sha256).unlink()
            else:
                self._aside(sha256).replace(self._path(sha256))

    def drop(self, sha256: str) -> None:
        """Remove a file that was set aside."""
        self._aside(sha256).unlink(missing_ok=True)

    def _path(self, sha256: str) -> Path:
        if not _CHECKSUM.fullmatch(sha256):
            raise AudioChanged("the checksum of an audio file has 64 hexadecimal digits")
        return self._root / sha256[:2] / sha256

    def _aside(self, sha256: str) -> Path:
        return self._path(sha256).with_name(f"{sha256}{_ASIDE}")


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
