"""Leases by name, with fencing tokens: who drives what, until when, by the database's clock."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from dragoman.lab.owners import is_gone
from dragoman.lab.repository.statements import insert_new, now_ms
from dragoman.lab.repository.tables import lease
from dragoman.store import StoreConnection

_MINE = (
    sa.select(lease.c.token)
    .where(*(lease.c[name] == sa.bindparam(name) for name in ("name", "owner", "token")))
    .with_for_update()
)


class Held(msgspec.Struct, frozen=True):
    """A lease as its holder knows it."""

    name: str
    owner: str
    token: int


class Ousted(Exception):
    """Raised when a lease has passed to another holder: the former one writes nothing more."""


def take(connection: StoreConnection, name: str, owner: str, lease_ms: int) -> Held | None:
    """Take a lease that is free, has run out, was lost, or whose holder has ended.

    None while another holds it.
    """
    unheld = {"name": name, "owner": "", "token": 0, "expires_at": 0}
    connection.execute(insert_new(connection.dialect, lease), unheld)
    holder = connection.execute(sa.select(lease.c.owner).where(lease.c.name == name)).scalar_one()
    mine = [owner, holder] if is_gone(holder) else [owner]
    taken = connection.execute(
        sa.update(lease)
        .where(
            lease.c.name == name,
            sa.or_(lease.c.expires_at <= now_ms(), lease.c.owner.in_(mine)),
        )
        .values(owner=owner, token=lease.c.token + 1, expires_at=now_ms() + lease_ms)
    )
    if taken.rowcount == 0:
        return None
    token = connection.execute(sa.select(lease.c.token).where(lease.c.name == name)).scalar_one()
    return Held(name, owner, token)


def seize(connection: StoreConnection, found: Held, owner: str, lease_ms: int) -> Held | None:
    """Take a lease from a holder that is gone; None when it is no longer that holder's."""
    taken = connection.execute(
        sa.update(lease)
        .where(*_is(found))
        .values(owner=owner, token=lease.c.token + 1, expires_at=now_ms() + lease_ms)
    )
    return None if taken.rowcount == 0 else Held(found.name, owner, found.token + 1)


def find(connection: StoreConnection, name: str) -> tuple[Held, bool] | None:
    """The lease of this name, with whether it has run out."""
    found = [one for one in held_under(connection, name) if one[0].name == name]
    return found[0] if found else None


def held_under(connection: StoreConnection, prefix: str) -> list[tuple[Held, bool]]:
    """The leases whose names begin so, each with whether it has run out."""
    rows = connection.execute(
        sa.select(lease, (lease.c.expires_at <= now_ms()).label("is_over"))
        .where(lease.c.name.startswith(prefix, autoescape=True))
        .order_by(lease.c.name)
    )
    return [(Held(row.name, row.owner, row.token), bool(row.is_over)) for row in rows]


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lease now, and for how long if it is not renewed."""

    owner: str
    seconds_left: float


def holder_of(connection: StoreConnection, name: str) -> Holder | None:
    """Who holds the lease; None when it can be taken."""
    left = (lease.c.expires_at - now_ms()).label("left")
    row = connection.execute(sa.select(lease.c.owner, left).where(lease.c.name == name)).first()
    if row is None or row.left <= 0 or is_gone(row.owner):
        return None
    return Holder(row.owner, row.left / 1000)


def renew(connection: StoreConnection, held: Held, lease_ms: int) -> None:
    """Renew the lease; raises `Ousted` when another holder has it."""
    renewed = connection.execute(
        sa.update(lease).where(*_is(held)).values(expires_at=now_ms() + lease_ms)
    )
    if renewed.rowcount == 0:
        raise Ousted(held.name)


def require(connection: StoreConnection, held: Held) -> None:
    """Let the transaction go on only under this lease, which cannot pass to another meanwhile."""
    mine = {"name": held.name, "owner": held.owner, "token": held.token}
    if connection.execute(_MINE, mine).first() is None:
        raise Ousted(held.name)


def release(connection: StoreConnection, held: Held) -> None:
    """Release the lease, so that another process can take it at once."""
    connection.execute(sa.update(lease).where(*_is(held)).values(expires_at=0))


def forget(connection: StoreConnection, held: Held) -> None:
    """Remove a lease that is not needed any more."""
    connection.execute(sa.delete(lease).where(*_is(held)))


def _is(held: Held) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        lease.c.name == held.name,
        lease.c.owner == held.owner,
        lease.c.token == held.token,
    )
