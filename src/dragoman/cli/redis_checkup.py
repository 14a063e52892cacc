"""The Redis checks of ``dragoman doctor``. Needs the extra `cluster`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from dragoman.cli.checkup import CheckupFinding, Level, judge_skew, refused
from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.redis_servers import RedisServerFacts, ask_redis, misfit
from dragoman.settings import ClusterSettings

_NEARLY_FULL = 0.9
"""From this share of its memory on, the next busy hour may fill it."""


def look_at_redis(settings: ClusterSettings, clock: Clock) -> Iterator[CheckupFinding]:
    """Whether Redis answers, is suitable, takes functions, keeps every key and has the time."""
    try:
        facts = ask_redis(settings.redis_url, settings.redis_timeout_ms, clock)
    except DragomanError as error:
        yield refused("redis", error)
        return
    if facts is None:
        yield CheckupFinding("redis", Level.OK, "it answers, but does not allow INFO")
    else:
        yield judge_redis(facts, cluster=settings.redis_cluster)
    try:
        missing = _missing_rights(settings.redis_url, settings.redis_timeout_ms / 1000)
    except (RedisError, OSError) as error:
        yield CheckupFinding("redis functions", Level.FAIL, str(error), "look at Redis's log")
    else:
        yield judge_redis_rights(missing)
    if facts is not None:
        yield judge_redis_memory(facts)
        yield judge_redis_clock(facts.skew_ms)


def _missing_rights(url: str, timeout_seconds: float) -> list[str]:
    """What the user may not do of what the ledger's functions need; nothing is changed.

    Redis refuses a command for want of the right before it looks at what is asked: here, to load
    what is no library, and to call a function that does not exist.
    """
    asked = {"FUNCTION LOAD": ("FUNCTION", "LOAD", ""), "FCALL": ("FCALL", "no_such_function", 0)}
    missing: list[str] = []
    with Redis.from_url(
        url,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    ) as client:
        for right, command in asked.items():
            try:
                client.execute_command(*command)
            except NoPermissionError:
                missing.append(right)
            except ResponseError:
                pass
    return missing


def judge_redis(facts: RedisServerFacts, *, cluster: bool) -> CheckupFinding:
    """Whether Dragoman can work with this server."""
    unfit = misfit(facts, cluster=cluster)
    if unfit is not None:
        return CheckupFinding("redis", Level.FAIL, unfit.found, unfit.remedy)
    return CheckupFinding("redis", Level.OK, f"version {facts.version} answers")


def judge_redis_rights(missing: Sequence[str]) -> CheckupFinding:
    """Whether the user may load the functions of the ledger, and call them."""
    if not missing:
        return CheckupFinding("redis functions", Level.OK, "they can be loaded and called")
    return CheckupFinding(
        "redis functions",
        Level.FAIL,
        f"the user may not use {' and '.join(missing)}",
        "give the user of cluster.redis_url the right to use FUNCTION LOAD and FCALL "
        "(ACL SETUSER NAME +function|load +fcall)",
    )


def judge_redis_memory(facts: RedisServerFacts) -> CheckupFinding:
    """Whether Redis keeps every key, and has room: a lease that it evicts may be given twice."""
    if facts.eviction:
        found = f"it evicts keys when it is full (maxmemory-policy {facts.eviction})"
        remedy = "set maxmemory-policy to noeviction"
        return CheckupFinding("redis memory", Level.WARN, found, remedy)
    if not facts.max_bytes:
        return CheckupFinding("redis memory", Level.OK, "it evicts no keys")
    used = f"{_megabytes(facts.used_bytes)} of {_megabytes(facts.max_bytes)} are used"
    if facts.used_bytes >= facts.max_bytes:
        found = f"it is full and refuses new work: {used}"
        return CheckupFinding("redis memory", Level.FAIL, found, "raise maxmemory")
    if facts.used_bytes >= facts.max_bytes * _NEARLY_FULL:
        found = f"it is nearly full: {used}"
        remedy = "raise maxmemory before new work is refused"
        return CheckupFinding("redis memory", Level.WARN, found, remedy)
    return CheckupFinding("redis memory", Level.OK, f"it evicts no keys; {used}")


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB"


def judge_redis_clock(skew_ms: int) -> CheckupFinding:
    """How far Redis's clock is from this machine's. Leases follow Redis, logs this machine."""
    return judge_skew("redis clock", skew_ms)
