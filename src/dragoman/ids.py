"""The names things go by. All ids are opaque and random; none is a counter."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from string import hexdigits
from typing import NewType

NodeId = NewType("NodeId", str)
JobId = NewType("JobId", str)
AttemptId = NewType("AttemptId", str)
SessionId = NewType("SessionId", str)
InstanceId = NewType("InstanceId", str)
TenantId = NewType("TenantId", str)
RequestId = NewType("RequestId", str)
KeyId = NewType("KeyId", str)
SignInId = NewType("SignInId", str)
ConnectionId = NewType("ConnectionId", str)

JOB_SHARDS = 256
"""How many shards the jobs are spread over; the shard is part of the job_id."""

_ID_BYTES = 12
_ID_BITS = 8 * _ID_BYTES


def new_id(random: Random, prefix: str) -> str:
    """A fresh id such as ``n-9f86d081884c7d659a2feaa0``."""
    # Python writes bytes as hex digits five times as fast as a number of so many.
    return f"{prefix}-{random.getrandbits(_ID_BITS).to_bytes(_ID_BYTES).hex()}"


def new_attempt_id(random: Random) -> AttemptId:
    return AttemptId("a-" + random.getrandbits(_ID_BITS).to_bytes(_ID_BYTES).hex())


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


# --- ids of the shared ledger: a job is found by its request, and by its id alone ----------------

_REQUEST_DIGITS = 20
_JOB_DIGITS = 12
_JOB_ID_LENGTH = len("j-") + 2 + _REQUEST_DIGITS + _JOB_DIGITS
_SESSION_ID_LENGTH = len("s-") + _ID_BITS // 4


_WITH_SHARD = ("s-", "j-")
_SHARDS = {first + second: int(first + second, 16) for first in hexdigits for second in hexdigits}


def shard_in(name: str) -> int | None:
    """The shard that a session_id or a job_id names, or None when the text is neither."""
    return _SHARDS.get(name[2:4]) if name.startswith(_WITH_SHARD) else None


def shard_for_request(tenant: str, request_id: str) -> int:
    """Where a request is bound: an utterance's in its session's shard, any other by its hash."""
    shard = shard_of_utterance(request_id)
    if shard is not None:
        return shard
    return blake2b(f"{tenant}\0{request_id}".encode(), digest_size=1).digest()[0]


def shard_of_utterance(request_id: str) -> int | None:
    """The shard of the session whose utterance has this name; None: it is no utterance's."""
    session_id, slash, _ = request_id.partition("/")
    if slash and session_id.startswith("s-") and len(session_id) == _SESSION_ID_LENGTH:
        return shard_in(session_id)
    return None


def request_digits(tenant: str, request_id: str, target_key: str) -> str:
    """What stands for a request in the ids of its jobs."""
    key = f"{tenant}\0{request_id}\0{target_key}".encode()
    return blake2b(key, digest_size=_REQUEST_DIGITS // 2).hexdigest()


def new_job_id_for(random: Random, tenant: str, request_id: str, target_key: str) -> JobId:
    """A fresh job_id that names its shard and its request."""
    shard = shard_for_request(tenant, request_id)
    digits = request_digits(tenant, request_id, target_key)
    return JobId(f"j-{shard:02x}{digits}{random.getrandbits(4 * _JOB_DIGITS):012x}")


def place_in(job_id: str) -> tuple[int, str] | None:
    """The shard and the request that a job_id names, or None when the text is no such job_id."""
    request = request_in(job_id)
    return None if request is None else (_SHARDS[job_id[2:4]], request)


def request_in(job_id: str) -> str | None:
    """The digits of the request that a job_id names, or None when the text is no such job_id."""
    if len(job_id) != _JOB_ID_LENGTH or not job_id.startswith("j-"):
        return None
    try:
        bytes.fromhex(job_id[2:])
    except ValueError:
        return None
    return job_id[4 : 4 + _REQUEST_DIGITS]
