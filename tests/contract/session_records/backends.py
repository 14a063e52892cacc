"""The keepers of session records that the contract holds for, and a record to keep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from tests.servers import PATIENT_MS, RedisCluster, RedisProcess

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId, new_id
from dragoman.live.protocol import SessionInit
from dragoman.live.sessions import (
    Delivered,
    Holding,
    MemoryRecords,
    OpenJob,
    RedisRecords,
    SessionOwner,
    SessionRecord,
    SessionRecords,
)
from dragoman.redis_servers import Caller, open_servers

KEEP_DELIVERED = 4
TTL_MS = 60_000

BACKENDS = [
    pytest.param("memory"),
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("redis_cluster", marks=pytest.mark.redis),
]


@asynccontextmanager
async def open_records(request: pytest.FixtureRequest) -> AsyncIterator[SessionRecords]:
    """Records of the backend that the test is run for, with nothing in them."""
    if request.param == "memory":
        yield MemoryRecords(KEEP_DELIVERED)
        return
    if request.param == "redis":
        server: RedisProcess | RedisCluster = request.getfixturevalue("redis_server")
    else:
        server = request.getfixturevalue("redis_cluster")
    async with redis_records(server, cluster=request.param == "redis_cluster") as records:
        yield records


@asynccontextmanager
async def redis_records(
    server: RedisProcess | RedisCluster,
    *,
    cluster: bool = False,
    ttl_ms: int = TTL_MS,
    timeout_ms: int = PATIENT_MS,
) -> AsyncIterator[RedisRecords]:
    """Records under keys of their own."""
    caller = Caller(open_servers(server.url, timeout_ms, cluster=cluster), timeout_ms)
    try:
        yield RedisRecords(
            caller, KEEP_DELIVERED, ttl_ms=ttl_ms, key_prefix=new_id(Random(), "test")
        )
    finally:
        await caller.close()


SESSION = SessionId("s-1")
HERE, THERE = InstanceId("here"), InstanceId("there")
FIRST, SECOND = ConnectionId("c-1"), ConnectionId("c-2")


def new_record(session_id: SessionId = SESSION) -> SessionRecord:
    """A session as it is when it has just been opened."""
    init = SessionInit(src_lang="zh", tgt_langs=("en", "fr"), features=("emotion_detection",))
    return SessionRecord(session_id, TenantId("red"), "hash of a secret", init, owner())


def owner(epoch: int = 1) -> SessionOwner:
    """Owners in turn: the odd epochs are here, the even ones there."""
    return SessionOwner(HERE, FIRST, epoch) if epoch % 2 else SessionOwner(THERE, SECOND, epoch)


def held(epoch: int = 1, seen: int = 0) -> Holding:
    """The session in the hands of its owner of an epoch, who has seen so much of its record."""
    return Holding(SESSION, owner(epoch), seen)


def job(index: int, target: str = "en") -> OpenJob:
    return OpenJob(index, target, JobId(f"j-{index}-{target}"))


def delivery(seq: int, index: int, target: str = "en", reason: str | None = None) -> Delivered:
    job_id = None if reason else JobId(f"j-{index}-{target}")
    return Delivered(seq, index, target, job_id, reason)
