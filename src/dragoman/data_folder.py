"""The folder of one server: claimed while it runs, with a note where the server is found."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from dragoman.errors import CannotStart
from dragoman.observability import get_logger

_LOCK_FILE = "server.lock"
_RECORD_FILE = "server.json"
_OWNER_ONLY = 0o700
_NOT_FOR_OTHERS = 0o077
_FILES_TOLD = 10

_log = get_logger(__name__)


class ServerRecord(msgspec.Struct, frozen=True):
    """A running server as tools on the same machine find it, in ``server.json``."""

    url: str
    pid: int
    instance_id: str
    started_at: str


@contextmanager
def claimed_folder(data_dir: Path) -> Iterator[None]:
    """Have the folder to ourselves, made where it is missing; refused while another server runs.

    The lock is the kernel's and goes with the process, so a crash leaves nothing to clean up.
    Whatever this process and its children write meanwhile is for their user alone, also in a
    folder that others can look into.
    """
    umask = os.umask(_NOT_FOR_OTHERS)
    try:
        with _locked(data_dir):
            _tell_what_others_can_read(data_dir)
            yield
    finally:
        os.umask(umask)


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    try:
        data_dir.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        lock = os.open(data_dir / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except (FileExistsError, NotADirectoryError) as error:
        raise CannotStart(
            f"The data folder {data_dir} cannot be used: {_file_in_the_way(data_dir)} is a file; "
            "remove it, or name another folder with --data-dir."
        ) from error
    except OSError as error:
        raise CannotStart(
            f"The data folder {data_dir} cannot be used ({error.strerror}); check its "
            "permissions, or name another one with --data-dir."
        ) from error
    try:
        _lock(lock, data_dir)
        yield
    finally:
        os.close(lock)


def _file_in_the_way(folder: Path) -> Path:
    return next((path for path in (folder, *folder.parents) if path.is_file()), folder)


def _tell_what_others_can_read(data_dir: Path) -> None:
    """Name the files that an older version, or another program, left open to others."""
    readable = sorted(
        file.name
        for file in data_dir.iterdir()
        if file.is_file() and file.stat().st_mode & _NOT_FOR_OTHERS
    )
    if readable and data_dir.stat().st_mode & _NOT_FOR_OTHERS:
        _log.warning(
            "data_folder_is_open",
            data_dir=str(data_dir),
            files=readable[:_FILES_TOLD],
            remedy=f"chmod -R go= {data_dir}",
        )


def _lock(lock: int, data_dir: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        raise CannotStart(
            f"The data folder {data_dir} is in use by another server (pid {holder}); stop that "
            "one, or name another folder with --data-dir."
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


@contextmanager
def published_record(data_dir: Path, record: ServerRecord) -> Iterator[None]:
    """Tell tools on this machine where the server is, for as long as it is there."""
    path = data_dir / _RECORD_FILE
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def find_server(data_dir: Path) -> ServerRecord | None:
    """The server that runs on a data folder; None when there is none, or it did not end well."""
    try:
        with open(data_dir / _LOCK_FILE, "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return msgspec.json.decode(
                    (data_dir / _RECORD_FILE).read_bytes(), type=ServerRecord
                )
    except (OSError, msgspec.DecodeError):
        return None
    return None
