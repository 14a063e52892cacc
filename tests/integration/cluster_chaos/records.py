"""What everybody who took part in a run wrote down, line by line, at the moment it happened.

Times are of the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="record"):
    at: float = msgspec.field(default_factory=time.monotonic)


# --- by nodes ------------------------------------------------------------------------------------


class NodeRecord(_Record, frozen=True):
    """Something that a node wrote down."""

    node_id: str


class NodeBegan(NodeRecord, frozen=True, tag=True):
    """A node's process began; whatever an earlier one had in hand died with it."""

    slots: int


class NodeJoined(NodeRecord, frozen=True, tag=True):
    """An instance acknowledged the node's registration."""

    instance_id: str


class NodeParted(NodeRecord, frozen=True, tag=True):
    """The node's connection ended, or none could be made."""

    code: int


class Took(NodeRecord, frozen=True, tag=True):
    """The node began to work on an attempt."""

    job_id: str
    attempt_id: str


class JobSeen(NodeRecord, frozen=True, tag=True):
    """The node saw whose a job is, and what was said."""

    job_id: str
    text: str
    session_id: str | None = None
    """None: a caller asked for the job without a session."""
    index: int | None = None


class TurnedAway(NodeRecord, frozen=True, tag=True):
    """The node did not take an attempt that it was given."""

    job_id: str
    attempt_id: str
    code: str


class Gave(NodeRecord, frozen=True, tag=True):
    """The node's work on an attempt ended; no code means that it went well."""

    job_id: str
    attempt_id: str
    code: str | None


# --- by speakers ---------------------------------------------------------------------------------


class SpeakerRecord(_Record, frozen=True):
    """Something that a speaker wrote down."""

    speaker: str


class Opened(SpeakerRecord, frozen=True, tag=True):
    """An instance acknowledged a session."""

    session_id: str
    instance_id: str
    resumed: bool


class Said(SpeakerRecord, frozen=True, tag=True):
    """An utterance was sent; again, after a lost connection."""

    session_id: str
    index: int
    text: str


class Heard(SpeakerRecord, frozen=True, tag=True):
    """An utterance ended for one target: with a text, or with the reason why there is none."""

    session_id: str
    number: int
    """The delivery_seq."""
    index: int
    tgt_lang: str | None
    text: str | None = None
    reason: str | None = None


class Parted(SpeakerRecord, frozen=True, tag=True):
    """A speaker's connection ended."""

    code: int


class Closed(SpeakerRecord, frozen=True, tag=True):
    """A session was closed in peace."""

    session_id: str


class GaveUp(_Record, frozen=True, tag=True):
    """A speaker or a node was told that it cannot go on."""

    who: str
    why: str


# --- by callers of POST /jobs --------------------------------------------------------------------


class Asked(_Record, frozen=True, tag=True):
    """A caller is about to ask an instance for a job."""

    request_id: str
    instance_id: str


class Answered(_Record, frozen=True, tag=True):
    """A caller was told of a job; no outcome means that it had not ended."""

    request_id: str
    wanted: str
    """The text that a success must carry."""
    job_id: str
    outcome: str | None = None
    text: str | None = None


# --- by the run itself ---------------------------------------------------------------------------


class Fault(_Record, frozen=True, tag=True):
    """Something was broken, and mended again."""

    kind: str
    whom: str
    until: float


class Stalled(_Record, frozen=True, tag=True):
    """A process answered late: it was stopped, or the machine had no time for it.

    It may have stood still from the last moment at which it was known to be in time.
    """

    whom: str
    until: float


class LeftBehind(_Record, frozen=True, tag=True):
    """What there still was when everybody had closed and all was quiet."""

    seen_at: str
    what: str
    count: int


Record: TypeAlias = (
    NodeBegan
    | NodeJoined
    | NodeParted
    | Took
    | JobSeen
    | TurnedAway
    | Gave
    | Opened
    | Said
    | Heard
    | Parted
    | Closed
    | GaveUp
    | Asked
    | Answered
    | Fault
    | Stalled
    | LeftBehind
)

_decode = msgspec.json.Decoder(Record).decode


class Diary:
    """A file of records; each is written at once, so that a killed process loses none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, record: Record) -> None:
        self._file.write(msgspec.json.encode(record) + b"\n")

    def close(self) -> None:
        self._file.close()


def read_all(folder: Path) -> list[Record]:
    """The records of all diaries of a folder, in the order in which things happened."""
    found = [record for path in folder.glob("*.diary") for record in _read(path)]
    return sorted(found, key=lambda record: record.at)


def _read(path: Path) -> Iterator[Record]:
    # A process may have been killed in the middle of its last line, and a later life of it goes
    # on in the same file: half a line is no record.
    for line in path.read_bytes().splitlines():
        try:
            yield _decode(line)
        except msgspec.DecodeError:
            continue
