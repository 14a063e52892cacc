"""Parquet: one item a row, read by a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from io import UnsupportedOperation
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO

import msgspec

from dragoman.extras import require_extra
from dragoman.lab.datasets.lines import MAX_RECORD_BYTES
from dragoman.lab.datasets.problems import Unreadable
from dragoman.lab.datasets.records import BadRecord, Record
from dragoman.lab.datasets.schema import MAX_COLUMNS

MEMORY_BYTES = 2 << 30
"""What the process may use; a file that needs more is refused."""


class ParquetMark(StrEnum):
    """How an export wrote a column, so that an import gives back what was there.

    They stand in the column's metadata under `KEY`, split by spaces.
    """

    KEY = "dragoman"
    JSON_TEXT = "json"
    """The column holds JSON as text."""
    ABSENT = "absent"
    """Null stands for a value that is not there at all."""
    WHOLE = "whole"
    """Numbers without a fraction are whole numbers."""


_CHILD = Path(__file__).with_name("parquet_child.py")
_PIPE_BYTES = 1 << 20
_BAD, _OVER, _END = b"!", b"#", b"."


def read_parquet(
    file: BinaryIO, max_items: int, *, memory_bytes: int = MEMORY_BYTES
) -> Iterator[Record | BadRecord]:
    """The rows of a file, numbered from 1; `line` is the number of the row."""
    require_extra("lab", "Reading a Parquet file", ["pyarrow"])
    return _rows(file, max_items, memory_bytes)


def _rows(file: BinaryIO, max_items: int, memory_bytes: int) -> Iterator[Record | BadRecord]:
    row = 0
    with _on_disk(file) as descriptor, _reading(descriptor, max_items, memory_bytes) as lines:
        for line in lines:
            kind = line[:1]
            if kind == _END:
                return
            if kind == _OVER:
                told = msgspec.json.decode(line[1:])
                raise Unreadable(told["row"], told["message"])
            row += 1
            if kind == _BAD:
                yield BadRecord(row, msgspec.json.decode(line[1:])["message"])
            else:
                yield Record(row, msgspec.json.decode(line), len(line))
    raise Unreadable(row + 1 if row else 0, "the program that reads Parquet ended too early")


@contextmanager
def _on_disk(file: BinaryIO) -> Iterator[int]:
    """The file as a descriptor; a file in memory is written to disk."""
    try:
        descriptor = file.fileno()
        file.flush()
    except (UnsupportedOperation, AttributeError):
        with TemporaryFile() as copy:
            copyfileobj(file, copy)
            copy.flush()
            yield copy.fileno()
    else:
        yield descriptor


@contextmanager
def _reading(descriptor: int, max_items: int, memory_bytes: int) -> Iterator[Iterator[bytes]]:
    """The lines that the process writes; at the end it is gone."""
    limits = json.dumps([max_items, MAX_COLUMNS, MAX_RECORD_BYTES, memory_bytes])
    process = subprocess.Popen(
        [sys.executable, "-I", str(_CHILD), str(descriptor), limits, json.dumps(sys.path)],
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # native libraries complain there of what is told anyway
        bufsize=_PIPE_BYTES,
        env=_environment(),
        # Ctrl-C is for this process, which then ends the other.
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield _lines(process)
    finally:
        process.stdout.close()
        process.kill()
        process.wait()


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    assert process.stdout is not None
    row = 0
    for line in process.stdout:
        row += line[:1] not in (_OVER, _END)
        yield line
    status = process.wait()
    if status:
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        raise Unreadable(
            row + 1 if row else 0,
            f"the program that reads Parquet ended with {how}; the file is damaged, or needs more "
            f"than {MEMORY_BYTES >> 20:,} MiB of memory",
        )


def _environment() -> dict[str, str]:
    # The plain allocator keeps to the limit on memory, and asks for no more than it needs.
    return {
        **{
            name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH")
        },
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "ARROW_IO_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }
