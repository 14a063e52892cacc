"""What kind of server is at a Redis URL, and whether Dragoman can work with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.retry import Retry

from dragoman.clock import Clock
from dragoman.errors import DependencyDown, SettingsError
from dragoman.settings import masked

OLDEST_REDIS = 7

_KEEPS_EVERYTHING = "noeviction"


class RedisServerFacts(msgspec.Struct, frozen=True):
    """A server as it describes itself."""

    version: str
    mode: str
    """standalone, cluster or sentinel."""
    is_replica: bool
    eviction: str
    """What it evicts when its memory is full; empty: nothing, or it has no limit."""
    skew_ms: int
    """How far its clock is ahead of ours."""
    used_bytes: int = 0
    """What counts towards its limit of memory."""
    max_bytes: int = 0
    """Its limit of memory; 0: it has none."""


class Misfit(msgspec.Struct, frozen=True):
    """Why a server is not suitable, and what helps."""

    found: str
    remedy: str
    may_pass: bool = False
    """Whether waiting may help: a failover may be about to promote it, for example."""


def ask_redis(url: str, timeout_ms: int, clock: Clock) -> RedisServerFacts | None:
    """Ask a server what it is; None when it answers but does not allow INFO.

    Raises DependencyDown when it does not answer, and SettingsError when it refuses the login.
    """
    seconds = timeout_ms / 1000
    try:
        with Redis.from_url(
            url,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        ) as client:
            told = client.info()
            asked_ms = clock.now_ms()
            at, microseconds = client.time()
            answered_ms = clock.now_ms()
    except AuthenticationError as error:
        raise SettingsError(
            f"Redis at {masked(url)} refuses the login ({error}); correct the user and the "
            "password in cluster.redis_url."
        ) from error
    except NoPermissionError:
        return None
    except (RedisError, OSError) as error:
        raise DependencyDown(
            f"Redis at {masked(url)} cannot be reached ({error}); start it, or correct "
            "cluster.redis_url."
        ) from error
    return server_facts(told, at * 1000 + microseconds // 1000 - (asked_ms + answered_ms) // 2)


def server_facts(told: Mapping[str, Any], skew_ms: int) -> RedisServerFacts:
    """What a server says about itself, from the fields of its INFO."""
    max_bytes = int(told.get("maxmemory", 0))
    policy = str(told.get("maxmemory_policy", _KEEPS_EVERYTHING))
    return RedisServerFacts(
        version=str(told["redis_version"]),
        # Valkey 8 and later call it server_mode.
        mode=str(told.get("redis_mode") or told.get("server_mode", "standalone")),
        is_replica=told.get("role") == "slave",
        eviction=policy if max_bytes and policy != _KEEPS_EVERYTHING else "",
        skew_ms=skew_ms,
        used_bytes=int(told.get("used_memory", 0)) - int(told.get("mem_not_counted_for_evict", 0)),
        max_bytes=max_bytes,
    )


def misfit(facts: RedisServerFacts, *, cluster: bool) -> Misfit | None:
    """Why a server does not fit the settings; None when it does."""
    if not _is_new_enough(facts.version):
        return Misfit(f"it is version {facts.version}", f"install Redis {OLDEST_REDIS} or newer")
    if facts.mode == "sentinel":
        return Misfit("it is a Sentinel", "name the primary that it watches over")
    if cluster and facts.mode != "cluster":
        return Misfit("it is not part of a Redis Cluster", "set cluster.redis_cluster = false")
    if not cluster and facts.mode == "cluster":
        return Misfit("it is part of a Redis Cluster", "set cluster.redis_cluster = true")
    if not cluster and facts.is_replica:
        return Misfit(
            "it is a replica, which stores nothing",
            "name its primary, or promote it",
            may_pass=True,
        )
    return None


def _is_new_enough(version: str) -> bool:
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= OLDEST_REDIS
