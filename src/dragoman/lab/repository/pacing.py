"""One budget of calls a target: what it is, and which worker may make how many of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.pace import Learned, shares_of
from dragoman.lab.repository.statements import (
    among,
    as_list,
    delete_many,
    insert_new,
    insert_or_update,
    now_ms,
    read_now_ms,
)
from dragoman.lab.repository.tables import target_pace, target_share
from dragoman.store import StoreConnection

_pace, _share = target_pace.c, target_share.c


class TargetPace(msgspec.Struct, frozen=True):
    """What is known of a target's pace."""

    target: str
    tenant: TenantId
    title: str
    most: int | None
    """Calls at once, over all workers; None: no limit but that of each run."""
    learned: Learned | None


class Claim(msgspec.Struct, frozen=True):
    """What one run of one worker wants of a target."""

    claimant: str
    wanted: int
    running: int
    """Calls in progress, which keep their places until they end."""
    learned: Learned | None = None


def find(connection: StoreConnection, targets: Collection[str]) -> dict[str, TargetPace]:
    """What is known of these targets, by their keys."""
    rows = connection.execute(
        sa.select(target_pace).where(among(_pace.target, "targets")), {"targets": as_list(targets)}
    )
    return {row.target: _pace_of(row) for row in rows}


def granted(connection: StoreConnection, target: str) -> int:
    """Calls at once that workers hold a share for now."""
    held = sa.select(sa.func.coalesce(sa.func.sum(_share.granted), 0))
    return int(connection.execute(held.where(_share.target == target)).scalar_one())


def note(connection: StoreConnection, target: str, tenant: TenantId, title: str) -> None:
    """Make a target known, so that its pace can be kept."""
    row = {"target": target, "tenant": tenant, "title": title}
    connection.execute(insert_new(connection.dialect, target_pace), row)


def set_most(
    connection: StoreConnection, target: str, tenant: TenantId, title: str, most: int | None
) -> None:
    """Set how many calls at once the target takes, from now on; None: no limit."""
    note(connection, target, tenant, title)
    connection.execute(sa.update(target_pace).where(_pace.target == target).values(most=most))
    connection.execute(
        sa.delete(target_pace).where(
            _pace.target == target, _pace.most.is_(None), _pace.learned_json.is_(None)
        )
    )


def settle(
    connection: StoreConnection, target: str, claims: Sequence[Claim], lease_ms: int
) -> tuple[dict[str, int] | None, Learned | None]:
    """Give each claimant its share of the budget, and share what was learned.

    The shares of all workers never add up to more than the budget, except for calls that were
    begun before it was lowered. None instead of shares: there is no limit. A claimant that does
    not come back within a lease loses its share.
    """
    row = connection.execute(
        sa.select(target_pace).where(_pace.target == target).with_for_update()
    ).first()
    if row is None:
        return None, None
    learned = _learned(connection, row, claims)
    if row.most is None:
        connection.execute(sa.delete(target_share).where(_share.target == target))
        return None, learned
    own = [claim.claimant for claim in claims]
    others = connection.execute(
        sa.select(target_share).where(
            _share.target == target,
            _share.seen_at_ms >= now_ms() - lease_ms,
            _share.claimant.not_in(own),
        )
    ).all()
    wanted = {other.claimant: other.wanted for other in others}
    wanted |= {claim.claimant: claim.wanted for claim in claims}
    fair = shares_of(row.most, wanted)
    free = row.most - sum(other.granted for other in others)
    at_ms = read_now_ms(connection)
    shares: dict[str, int] = {}
    rows = []
    for claim in claims:
        share = max(0, min(fair[claim.claimant], free))
        granted = max(share, claim.running)
        free -= granted
        shares[claim.claimant] = share
        rows.append(
            {
                "target": target,
                "claimant": claim.claimant,
                "wanted": claim.wanted,
                "granted": granted,
                "seen_at_ms": at_ms,
            }
        )
    changing = ["wanted", "granted", "seen_at_ms"]
    key = ["target", "claimant"]
    connection.execute(insert_or_update(connection.dialect, target_share, key, changing), rows)
    connection.execute(
        sa.delete(target_share).where(
            _share.target == target, _share.seen_at_ms < now_ms() - lease_ms
        )
    )
    return shares, learned


def leave(connection: StoreConnection, claimants: Collection[str]) -> None:
    """Give shares back."""
    connection.execute(
        delete_many(target_share).where(among(_share.claimant, "claimants")),
        {"claimants": as_list(claimants)},
    )


def _learned(
    connection: StoreConnection, row: sa.Row[tuple[object, ...]], claims: Sequence[Claim]
) -> Learned | None:
    """What is known of the target's limit, with what these claimants know of it now."""
    told = [claim.learned for claim in claims if claim.learned is not None]
    if not told:
        return _pace_of(row).learned
    newest = Learned(
        max(one.asked_seconds for one in told),
        max(one.refusal_seconds for one in told),
        max(one.per_round for one in told),
    )
    connection.execute(
        sa.update(target_pace)
        .where(_pace.target == row.target)
        .values(learned_json=msgspec.json.encode(newest).decode())
    )
    return newest


def _pace_of(row: sa.Row[tuple[object, ...]]) -> TargetPace:
    learned = row.learned_json
    return TargetPace(
        target=row.target,
        tenant=TenantId(row.tenant),
        title=row.title,
        most=row.most,
        learned=None if learned is None else msgspec.json.decode(learned, type=Learned),
    )
