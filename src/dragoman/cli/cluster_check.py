"""``dragoman cluster check``: compares what a cluster keeps in Redis. Needs the extra `cluster`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.cli.redis_keys import families
from dragoman.errors import DependencyDown, InternalError
from dragoman.extras import require_extra
from dragoman.live.shared import RedisCheck, check
from dragoman.settings import ClusterSettings, load_settings, masked


class CheckedFinding(msgspec.Struct, frozen=True):
    """Something that does not fit, and whether it was put right."""

    damage: check.Damage
    subject: str
    found: str
    repaired: bool = False


class CheckReport(msgspec.Struct, frozen=True):
    """What the check found."""

    ok: bool
    """Nothing is left that does not fit."""
    findings: tuple[CheckedFinding, ...]


def check_cluster(config: Path | None, *, repair: bool, wait_seconds: float) -> CheckReport:
    """Look twice, some time apart; what is found both times is damage."""
    require_extra("cluster", "dragoman cluster check")
    settings = load_settings(config).settings.cluster
    return asyncio.run(examine(settings, repair=repair, wait_seconds=wait_seconds))


async def examine(settings: ClusterSettings, *, repair: bool, wait_seconds: float) -> CheckReport:
    redis = RedisCheck(
        settings.redis_url,
        families(),
        cluster=settings.redis_cluster,
        key_prefix=settings.key_prefix,
        timeout_ms=settings.redis_timeout_ms,
    )
    try:
        first = await redis.look()
        found: tuple[check.LedgerFinding, ...] = ()
        if first:
            await asyncio.sleep(wait_seconds)
            found = check.confirmed(first, await redis.look())
        repaired: set[tuple[check.Damage, str]] = set()
        for finding in found if repair else ():
            if finding.damage in check.REPAIRABLE:
                with suppress(InternalError):  # It stays among what does not fit.
                    await redis.repair(finding)
                    repaired.add(finding.identity)
    except DependencyDown as error:
        raise DependencyDown(
            f"Redis at {masked(settings.redis_url)} did not answer: {error.message} "
            "Start it, or correct cluster.redis_url."
        ) from error
    finally:
        await redis.close()
    findings = tuple(
        CheckedFinding(each.damage, each.subject, each.found, each.identity in repaired)
        for each in found
    )
    return CheckReport(all(each.repaired for each in findings), findings)
