"""The names things go by. All ids are opaque and random; none is a counter."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import NewType

NodeId = NewType("NodeId", str)
JobId = NewType("JobId", str)
AttemptId = NewType("AttemptId", str)
SessionId = NewType("SessionId", str)
InstanceId = NewType("InstanceId", str)
TenantId = NewType("TenantId", str)
RequestId = NewType("RequestId", str)
KeyId = NewType("KeyId", str)
ConnectionId = NewType("ConnectionId", str)

JOB_SHARDS = 256
"""How many shards the jobs are spread over; the shard is part of the job_id."""

_ID_BITS = 96


def new_id(random: Random, prefix: str) -> str:
    """A fresh id such as ``n-9f86d081884c7d659a2feaa0``."""
    return f"{prefix}-{random.getrandbits(_ID_BITS):024x}"


def new_attempt_id(random: Random) -> AttemptId:
    return AttemptId(f"a-{random.getrandbits(_ID_BITS):024x}")


def new_job_id(random: Random, shard: int) -> JobId:
    """A fresh job_id that tells its shard, so that a job is found by its id alone."""
    return JobId(f"j-{shard:02x}{random.getrandbits(_ID_BITS):024x}")


def job_shard(job_id: str) -> int | None:
    """The shard written in a job_id, or None when the text is no job_id."""
    if len(job_id) != 28 or not job_id.startswith("j-"):
        return None
    try:
        int(job_id[2:], 16)
    except ValueError:
        return None
    return int(job_id[2:4], 16)


def request_shard(tenant: str, request_id: str, tgt_lang: str) -> int:
    """The shard that binds a request; the same request always meets in the same place."""
    key = f"{tenant}\0{request_id}\0{tgt_lang}".encode()
    return blake2b(key, digest_size=1).digest()[0]
