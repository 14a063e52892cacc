"""What ``dragoman doctor`` makes of a Redis server. Needs the extra `cluster`."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cli.checkup import Finding, Level, judge_skew, refused
from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.redis_servers import ServerFacts, ask_redis, misfit
from dragoman.settings import ClusterSettings


def look_at_redis(settings: ClusterSettings, clock: Clock) -> Iterator[Finding]:
    """Whether it answers, will do, keeps what it is given, and knows the time."""
    try:
        facts = ask_redis(settings.redis_url, settings.redis_timeout_ms, clock)
    except DragomanError as error:
        yield refused("redis", error)
        return
    if facts is None:
        yield Finding("redis", Level.OK, "it answers, and does not say what it is")
        return
    yield judge_redis(facts, cluster=settings.redis_cluster)
    yield judge_redis_memory(facts)
    yield judge_redis_clock(facts.skew_ms)


def judge_redis(facts: ServerFacts, *, cluster: bool) -> Finding:
    """Whether the server is one that Dragoman can work with."""
    unfit = misfit(facts, cluster=cluster)
    if unfit is not None:
        return Finding("redis", Level.FAIL, unfit.found, unfit.remedy)
    return Finding("redis", Level.OK, f"it answers, version {facts.version}")


def judge_redis_memory(facts: ServerFacts) -> Finding:
    """Whether it keeps what it is given: a slot that is forgotten may be given twice."""
    if not facts.eviction:
        return Finding("redis memory", Level.OK, "it throws nothing out")
    found = f"when it is full it throws keys out (maxmemory-policy {facts.eviction})"
    return Finding("redis memory", Level.WARN, found, "set maxmemory-policy to noeviction")


def judge_redis_clock(skew_ms: int) -> Finding:
    """How far Redis's clock is from ours; leases go by Redis's, people read ours."""
    return judge_skew("redis clock", skew_ms)
