"""What instances write to each other.

A note is a hint. Its reader looks up the truth in the ledger where that may have moved on, so a
note that comes twice, late or not at all does no harm.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId, SessionId
from dragoman.live.protocol import Command, ErrorInfo, JobAssign, JobResult, Outcome


class AssignNote(msgspec.Struct, frozen=True, tag="assign", omit_defaults=True):
    """Send an attempt to a node that is connected to you."""

    job_id: JobId
    attempt_id: AttemptId
    cell: int
    node_id: NodeId
    connection_id: ConnectionId
    epoch: int
    driver: InstanceId
    """Who drives the job, and is told how the attempt goes on."""
    message: JobAssign
    """What the node is told."""
    input_is_stored: bool = False
    """The input is too large for a note: it is read from the job's record."""
    watched: bool = False
    """A watcher wants every step: those are to be called out to the job's driver."""
    is_canary: bool = False
    """The attempt is a canary's: its failure never ends the job."""


class ResultNote(msgspec.Struct, frozen=True, tag="result", omit_defaults=True):
    """An attempt of a job that you drive is over, by its node's word; its slot is free."""

    job_id: JobId
    attempt_id: AttemptId
    cell: int
    outcome: Outcome
    output: JobResult | None = None
    """None for a result that is too large for a note: its cell keeps it."""
    error: ErrorInfo | None = None
    accepted_after_ms: int = -1
    running_after_ms: int = -1
    """How long after its dispatch the node accepted it and began to work; -1: not said."""


class CancelNote(msgspec.Struct, frozen=True, tag="cancel"):
    """Tell a node that is connected to you to stop an attempt."""

    job_id: JobId
    attempt_id: AttemptId
    node_id: NodeId
    connection_id: ConnectionId
    epoch: int
    reason: str


class EndedNote(msgspec.Struct, frozen=True, tag="ended"):
    """A job that you wait for, or whose session you hold, has ended."""

    job_id: JobId


class TryAgainNote(msgspec.Struct, frozen=True, tag="try_again"):
    """A job that you drive lost an attempt and needs another."""

    job_id: JobId
    attempt_id: AttemptId
    preempted: bool = False
    """It gave way to live work."""


class InheritedNote(msgspec.Struct, frozen=True, tag="inherited"):
    """A slot passed to a job that you hold and that waits for it."""

    job_id: JobId
    attempt_id: AttemptId


class WatchNote(msgspec.Struct, frozen=True, tag="watch"):
    """Call out to an instance how a job goes on, for it holds the job's session now."""

    job_id: JobId
    attempt_id: AttemptId | None
    watcher: InstanceId
    steps: bool
    """Every step of it; otherwise what its node has recognised so far, alone."""


class SupersededNote(msgspec.Struct, frozen=True, tag="superseded"):
    """A node came back through a newer connection: close the one you have."""

    node_id: NodeId
    connection_id: ConnectionId
    epoch: int


class SessionTakenNote(msgspec.Struct, frozen=True, tag="session_taken"):
    """A session was resumed elsewhere: let go of it, unless yours is the newer connection."""

    session_id: SessionId
    connection_id: ConnectionId
    epoch: int


class ControlNote(msgspec.Struct, frozen=True, tag="control"):
    """Pass a command on to a node that is connected to you."""

    node_id: NodeId
    connection_id: ConnectionId
    epoch: int
    command: Command
    reason: str | None = None


class AskReportNote(msgspec.Struct, frozen=True, tag="ask_report"):
    """A cell forgot its slots: ask your nodes that live in it to report."""

    cell: int


Note: TypeAlias = (
    AssignNote
    | ResultNote
    | CancelNote
    | EndedNote
    | TryAgainNote
    | InheritedNote
    | WatchNote
    | SupersededNote
    | SessionTakenNote
    | ControlNote
    | AskReportNote
)
"""Every kind of note. A new kind is a struct with a tag of its own, added here."""


def subject_of(note: Note) -> str:
    """What a note is about; notes about the same thing are handled in the order they came."""
    match note:
        case AssignNote() | ResultNote() | CancelNote() | EndedNote() | TryAgainNote():
            return note.job_id
        case InheritedNote() | WatchNote():
            return note.job_id
        case SupersededNote() | ControlNote():
            return note.node_id
        case SessionTakenNote():
            return note.session_id
        case AskReportNote():
            return f"cell {note.cell}"


encode_note = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Note)


def decode_note(written: bytes) -> Note | None:
    """The note, or None for one that this version of Dragoman cannot read."""
    try:
        note: Note = _decoder.decode(written)
    except msgspec.DecodeError:
        return None
    return note
