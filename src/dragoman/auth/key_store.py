"""The stored keys, and who is signed in with one: found by their digest, revoked for good."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from dragoman.audit import AuditEntry, AuditOutcome, insert_entry
from dragoman.auth.keys import ApiKey
from dragoman.auth.principal import OIDC_PREFIX, Principal
from dragoman.auth.roles import Role
from dragoman.clock import Clock
from dragoman.errors import Forbidden, InvalidMessage, NotFound
from dragoman.ids import KeyId, NodeId, SignInId, TenantId, new_id
from dragoman.store import Store, StoreConnection, metadata, short_text, time_ms

api_key = sa.Table(
    "api_key",
    metadata,
    sa.Column("id", short_text(64), primary_key=True),
    sa.Column("digest", short_text(64), nullable=False, unique=True),
    sa.Column("role", short_text(32), nullable=False),
    sa.Column("tenant", short_text(), nullable=False),
    sa.Column("node_id", short_text()),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Column("revoked_at_ms", time_ms()),
    sa.Column("expires_at_ms", time_ms()),
    sa.Column("replaces", short_text(64)),
)

sign_in = sa.Table(
    "sign_in",
    metadata,
    sa.Column("digest", short_text(64), primary_key=True),
    sa.Column("key_id", short_text(64), nullable=False),
    sa.Column("created_at_ms", time_ms(), nullable=False),
    sa.Column("expires_at_ms", time_ms(), nullable=False, index=True),
)

_IDS_PER_QUERY = 500
_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,128}")

_IS_LIVE = sa.and_(
    api_key.c.revoked_at_ms.is_(None),
    sa.or_(api_key.c.expires_at_ms.is_(None), api_key.c.expires_at_ms > sa.bindparam("now_ms")),
)
_LIVE_BY_DIGESTS = sa.select(api_key).where(
    api_key.c.digest.in_(sa.bindparam("digests", expanding=True)), _IS_LIVE
)
_SIGNED_IN_BY_DIGESTS = (
    sa.select(api_key, sign_in.c.digest.label("signed_in"))
    .join(sign_in, sign_in.c.key_id == api_key.c.id)
    .where(
        sign_in.c.digest.in_(sa.bindparam("digests", expanding=True)),
        sign_in.c.expires_at_ms > sa.bindparam("now_ms"),
        _IS_LIVE,
    )
)
_BY_ID = sa.select(api_key).where(api_key.c.id == sa.bindparam("key_id"))
_NEWEST_LAST = sa.select(api_key).order_by(api_key.c.created_at_ms, api_key.c.id)
_REVOKE = (
    sa.update(api_key)
    .where(api_key.c.id == sa.bindparam("key_id"), api_key.c.revoked_at_ms.is_(None))
    .values(revoked_at_ms=sa.bindparam("now_ms"))
)
_EXPIRED = sa.delete(sign_in).where(sign_in.c.expires_at_ms <= sa.bindparam("now_ms"))
_SIGN_OUT = sa.delete(sign_in).where(sign_in.c.digest == sa.bindparam("of_digest"))
_LIVE_AMONG = sa.select(api_key.c.id).where(
    api_key.c.id.in_(sa.bindparam("key_ids", expanding=True)), _IS_LIVE
)
_EXPIRE = (
    sa.update(api_key)
    .where(api_key.c.id == sa.bindparam("key_id"))
    .values(expires_at_ms=sa.bindparam("at_ms"))
)


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is known of a key, without the key."""

    key_id: KeyId
    role: Role
    tenant: TenantId
    node_id: NodeId | None
    created_at_ms: int
    revoked_at_ms: int | None
    expires_at_ms: int | None = None
    """When a key that was rotated stops working."""
    replaces: KeyId | None = None
    """The key whose place this one takes."""


class KeyStore:
    """The keys of one database. Other processes may change them at any time."""

    def __init__(
        self, store: Store, clock: Clock, random: Random, actor: str = "command line"
    ) -> None:
        """actor: who changes keys here, as the audit log tells it."""
        self._store = store
        self._clock = clock
        self._random = random
        self._actor = actor

    async def create(
        self, role: Role, tenant: str, node_id: str | None = None
    ) -> tuple[KeyRecord, ApiKey]:
        """Create a key and return it with its record; it cannot be shown again."""
        if node_id is not None and role is not Role.NODE:
            raise InvalidMessage(
                f"A key with role {role} has no node_id; only keys with role node are tied to one."
            )
        key = ApiKey.generate()
        record = KeyRecord(
            key_id=KeyId(new_id(self._random, "k")),
            role=role,
            tenant=TenantId(_checked("tenant", tenant)),
            node_id=None if node_id is None else NodeId(_checked("node_id", node_id)),
            created_at_ms=self._clock.now_ms(),
            revoked_at_ms=None,
        )
        entry = self._entry("key.create", record, role=role.value, node_id=record.node_id)

        def insert(connection: StoreConnection) -> None:
            connection.execute(sa.insert(api_key), _row(record, key))
            insert_entry(connection, entry)

        await self._store.write(insert)
        return record, key

    async def rotate(self, key_id: str, overlap_seconds: float) -> tuple[KeyRecord, ApiKey]:
        """Create a key in the place of another, which goes on working for so long.

        The old key's connections stay open until then, so that its holder can change over without
        a break.
        """
        key = ApiKey.generate()
        new_key_id = KeyId(new_id(self._random, "k"))
        entry_id = new_id(self._random, "e")
        now_ms = self._clock.now_ms()
        expires_at_ms = now_ms + round(overlap_seconds * 1000)

        def replace(connection: StoreConnection) -> KeyRecord | None:
            row = connection.execute(_BY_ID, {"key_id": key_id}).first()
            if row is None:
                return None
            old = _record(row)
            _check_rotates(old, now_ms)
            record = KeyRecord(
                key_id=new_key_id,
                role=old.role,
                tenant=old.tenant,
                node_id=old.node_id,
                created_at_ms=now_ms,
                revoked_at_ms=None,
                replaces=old.key_id,
            )
            connection.execute(_EXPIRE, {"key_id": key_id, "at_ms": expires_at_ms})
            connection.execute(sa.insert(api_key), _row(record, key))
            entry = self._entry(
                "key.rotate", old, entry_id, new_key=new_key_id, expires_at_ms=expires_at_ms
            )
            insert_entry(connection, entry)
            return record

        made = await self._store.write(replace)
        if made is None:
            raise _no_key(key_id)
        return made, key

    def _entry(
        self, action: str, record: KeyRecord, entry_id: str | None = None, **facts: object
    ) -> AuditEntry:
        return AuditEntry(
            entry_id=entry_id or new_id(self._random, "e"),
            at_ms=self._clock.now_ms(),
            actor=self._actor,
            role=None,
            tenant=record.tenant,
            address="",
            action=action,
            subject=record.key_id,
            outcome=AuditOutcome.DONE,
            facts={name: value for name, value in facts.items() if value is not None},
        )

    async def list(self) -> Sequence[KeyRecord]:
        """Every key ever created, including revoked ones, oldest first."""

        def select(connection: StoreConnection) -> Sequence[KeyRecord]:
            return [_record(row) for row in connection.execute(_NEWEST_LAST)]

        return await self._store.read(select)

    async def revoke(self, key_id: str) -> KeyRecord:
        """Revoke a key for good; a key that was revoked before keeps its time."""
        now_ms = self._clock.now_ms()
        entry_id = new_id(self._random, "e")

        def update(connection: StoreConnection) -> KeyRecord | None:
            changed = connection.execute(_REVOKE, {"key_id": key_id, "now_ms": now_ms}).rowcount
            row = connection.execute(_BY_ID, {"key_id": key_id}).first()
            if row is None:
                return None
            record = _record(row)
            if changed:
                insert_entry(connection, self._entry("key.revoke", record, entry_id))
            return record

        record = await self._store.write(update)
        if record is None:
            raise _no_key(key_id)
        return record

    async def lookup(self, key: ApiKey) -> Principal | None:
        """Whose key this is, or None when it was never made or is revoked."""
        return (await self.holders([key.digest()])).get(key.digest())

    async def holders(self, digests: Collection[str]) -> dict[str, Principal]:
        """Who presents what has these digests, in one read: keys, and browsers signed in with one.

        Those never made, revoked, signed out or expired are left out.

        Whole digests of SHA-256 are compared: how long it takes tells nothing of the keys.
        """
        ordered = sorted(digests)
        now_ms = self._clock.now_ms()

        def select(connection: StoreConnection) -> dict[str, Principal]:
            found: dict[str, Principal] = {}
            for start in range(0, len(ordered), _IDS_PER_QUERY):
                some = ordered[start : start + _IDS_PER_QUERY]
                asked = {"digests": some, "now_ms": now_ms}
                for row in connection.execute(_LIVE_BY_DIGESTS, asked):
                    record = _record(row)
                    found[row.digest] = Principal(
                        record.key_id, record.role, record.tenant, record.node_id
                    )
                if not (others := [digest for digest in some if digest not in found]):
                    continue
                asked = {"digests": others, "now_ms": now_ms}
                for row in connection.execute(_SIGNED_IN_BY_DIGESTS, asked):
                    record = _record(row)
                    found[row.signed_in] = Principal(
                        record.key_id,
                        record.role,
                        record.tenant,
                        sign_in_id=SignInId(row.signed_in),
                    )
            return found

        return await self._store.read(select)

    async def sign_in(self, key_id: KeyId, expires_at_ms: int) -> ApiKey:
        """Let a browser act for a key until then; what it presents from now on."""
        token = ApiKey.generate_sign_in()
        now_ms = self._clock.now_ms()
        row = {
            "digest": token.digest(),
            "key_id": key_id,
            "created_at_ms": now_ms,
            "expires_at_ms": expires_at_ms,
        }

        def insert(connection: StoreConnection) -> None:
            connection.execute(_EXPIRED, {"now_ms": now_ms})
            connection.execute(sa.insert(sign_in), row)

        await self._store.write(insert)
        return token

    async def sign_in_person(
        self, key_id: KeyId, role: Role, tenant: TenantId, expires_at_ms: int
    ) -> ApiKey:
        """Let a browser act for a person whom others vouch for; what it presents from now on.

        The person stands in the list of keys, though no key opens it: who revokes it keeps them
        out. One whose role or tenant has changed is signed out everywhere else.
        """
        token = ApiKey.generate_sign_in()
        now_ms = self._clock.now_ms()
        record = KeyRecord(key_id, role, tenant, None, now_ms, None)
        entry_id = new_id(self._random, "e")
        held = {"role": role.value, "tenant": tenant}

        def write(connection: StoreConnection) -> bool:
            connection.execute(_EXPIRED, {"now_ms": now_ms})
            row = connection.execute(_BY_ID, {"key_id": key_id}).first()
            if row is None:
                connection.execute(sa.insert(api_key), _row(record, ApiKey.generate()))
                facts = self._entry("key.create", record, entry_id, role=role.value, by="oidc")
                insert_entry(connection, facts)
            elif row.revoked_at_ms is not None:
                return False
            elif (row.role, row.tenant) != (role.value, tenant):
                connection.execute(sa.update(api_key).where(api_key.c.id == key_id).values(held))
                connection.execute(sa.delete(sign_in).where(sign_in.c.key_id == key_id))
            if row is not None and row.expires_at_ms is not None:
                # An earlier version let an operator rotate it; only a revocation keeps people out.
                connection.execute(_EXPIRE, {"key_id": key_id, "at_ms": None})
            connection.execute(
                sa.insert(sign_in),
                {
                    "digest": token.digest(),
                    "key_id": key_id,
                    "created_at_ms": now_ms,
                    "expires_at_ms": expires_at_ms,
                },
            )
            return True

        try:
            let_in = await self._store.write(write)
        except IntegrityError:  # the same person signed in for the first time elsewhere, just now
            let_in = await self._store.write(write)
        if not let_in:
            raise Forbidden(f"{key_id} was revoked on this server; ask an operator.")
        return token

    async def sign_out(self, sign_in_id: SignInId) -> None:
        """End what a browser was let do; one that was ended before stays so."""

        def delete(connection: StoreConnection) -> None:
            connection.execute(_SIGN_OUT, {"of_digest": sign_in_id})

        await self._store.write(delete)

    async def signed_in_among(self, sign_in_ids: Collection[SignInId]) -> set[SignInId]:
        """Which of these browsers may still act."""
        return {SignInId(digest) for digest in await self.holders(sign_in_ids)}

    async def live_among(self, key_ids: Collection[KeyId]) -> set[KeyId]:
        """Which of these keys still work."""
        ordered = sorted(key_ids)
        now_ms = self._clock.now_ms()

        def select(connection: StoreConnection) -> set[KeyId]:
            live: set[KeyId] = set()
            for start in range(0, len(ordered), _IDS_PER_QUERY):
                some = ordered[start : start + _IDS_PER_QUERY]
                asked = {"key_ids": some, "now_ms": now_ms}
                live.update(connection.execute(_LIVE_AMONG, asked).scalars())
            return live

        return await self._store.read(select)


def _record(row: sa.Row[Any]) -> KeyRecord:
    return KeyRecord(
        key_id=KeyId(row.id),
        role=Role(row.role),
        tenant=TenantId(row.tenant),
        node_id=None if row.node_id is None else NodeId(row.node_id),
        created_at_ms=row.created_at_ms,
        revoked_at_ms=row.revoked_at_ms,
        expires_at_ms=row.expires_at_ms,
        replaces=None if row.replaces is None else KeyId(row.replaces),
    )


def _row(record: KeyRecord, key: ApiKey) -> dict[str, Any]:
    return {
        "id": record.key_id,
        "digest": key.digest(),
        "role": record.role.value,
        "tenant": record.tenant,
        "node_id": record.node_id,
        "created_at_ms": record.created_at_ms,
        "replaces": record.replaces,
    }


def _check_rotates(old: KeyRecord, now_ms: int) -> None:
    """Refuse a person, and a key that works no more or has a successor already."""
    if old.key_id.startswith(OIDC_PREFIX):
        raise InvalidMessage(
            f"{old.key_id} is a person who signs in through the OpenID provider, and no key opens "
            "it; `dragoman keys create` makes a key, and `dragoman keys revoke` keeps the person "
            "out."
        )
    if old.revoked_at_ms is not None:
        raise InvalidMessage(f"Key {old.key_id} is revoked; create a new one instead.")
    if old.expires_at_ms is not None:
        is_over = old.expires_at_ms <= now_ms
        how = "was rotated, and works no more" if is_over else "was rotated already"
        raise InvalidMessage(
            f"Key {old.key_id} {how}; rotate the key that replaced it (`dragoman keys list`)."
        )


def _no_key(key_id: str) -> NotFound:
    return NotFound(f"No key has the id {key_id!r}; `dragoman keys list` shows the ids.")


def _checked(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidMessage(
            f"The {what} {name!r} cannot be used; use 1 to 128 characters without spaces."
        )
    return name
