"""The keepers of session records that the contract holds for, and a record to keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.protocol import SessionInit
from dragoman.live.sessions import (
    Delivered,
    MemoryRecords,
    OpenJob,
    SessionOwner,
    SessionRecord,
    SessionRecords,
)

KEEP_DELIVERED = 4

Open = Callable[[int], SessionRecords]
BACKENDS = [pytest.param(MemoryRecords, id="memory")]

SESSION = SessionId("s-1")
HERE, THERE = InstanceId("here"), InstanceId("there")
FIRST, SECOND = ConnectionId("c-1"), ConnectionId("c-2")


def new_record(session_id: SessionId = SESSION) -> SessionRecord:
    """A session as it is when it has just been opened."""
    init = SessionInit(src_lang="zh", tgt_langs=("en", "fr"), features=("emotion_detection",))
    return SessionRecord(
        session_id, TenantId("red"), "hash of a secret", init, SessionOwner(HERE, FIRST, 1)
    )


def job(index: int, target: str = "en") -> OpenJob:
    return OpenJob(index, target, JobId(f"j-{index}-{target}"))


def delivery(seq: int, index: int, target: str = "en", reason: str | None = None) -> Delivered:
    job_id = None if reason else JobId(f"j-{index}-{target}")
    return Delivered(seq, index, target, job_id, reason)
