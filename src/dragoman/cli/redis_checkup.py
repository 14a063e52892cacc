"""The Redis checks of ``dragoman doctor``. Needs the extra `cluster`."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cli.checkup import CheckupFinding, Level, judge_skew, refused
from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.redis_servers import RedisServerFacts, ask_redis, misfit
from dragoman.settings import ClusterSettings


def look_at_redis(settings: ClusterSettings, clock: Clock) -> Iterator[CheckupFinding]:
    """Whether Redis answers, is suitable, keeps every key, and has the right time."""
    try:
        facts = ask_redis(settings.redis_url, settings.redis_timeout_ms, clock)
    except DragomanError as error:
        yield refused("redis", error)
        return
    if facts is None:
        yield CheckupFinding("redis", Level.OK, "it answers, but does not allow INFO")
        return
    yield judge_redis(facts, cluster=settings.redis_cluster)
    yield judge_redis_memory(facts)
    yield judge_redis_clock(facts.skew_ms)


def judge_redis(facts: RedisServerFacts, *, cluster: bool) -> CheckupFinding:
    """Whether Dragoman can work with this server."""
    unfit = misfit(facts, cluster=cluster)
    if unfit is not None:
        return CheckupFinding("redis", Level.FAIL, unfit.found, unfit.remedy)
    return CheckupFinding("redis", Level.OK, f"version {facts.version} answers")


def judge_redis_memory(facts: RedisServerFacts) -> CheckupFinding:
    """Whether Redis keeps every key: a lease that it evicts may be given twice."""
    if not facts.eviction:
        return CheckupFinding("redis memory", Level.OK, "it evicts no keys")
    found = f"it evicts keys when it is full (maxmemory-policy {facts.eviction})"
    return CheckupFinding("redis memory", Level.WARN, found, "set maxmemory-policy to noeviction")


def judge_redis_clock(skew_ms: int) -> CheckupFinding:
    """How far Redis's clock is from this machine's. Leases follow Redis, logs this machine."""
    return judge_skew("redis clock", skew_ms)
