"""Datasets on record: versions that never change, and items that are stored before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import Dataset, DatasetId, DatasetVersion, Item, ItemId, VersionId
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import dataset, dataset_item, dataset_version
from dragoman.store import Connection


def insert_items(
    connection: Connection, tenant: TenantId, version_id: VersionId, items: Sequence[Item]
) -> None:
    """Store items of a version that nobody sees yet."""
    connection.execute(
        sa.insert(dataset_item),
        [
            {
                "id": item.item_id,
                "tenant": tenant,
                "version_id": version_id,
                "turn_count": len(item.turns),
                "turns_json": msgspec.json.encode(item.turns).decode(),
            }
            for item in items
        ],
    )


def discard_items(connection: Connection, version_id: VersionId, most: int) -> int:
    """Remove items of a version that never came to be; how many were removed."""
    some = sa.select(dataset_item.c.id).where(dataset_item.c.version_id == version_id).limit(most)
    ids = list(connection.execute(some).scalars())
    connection.execute(sa.delete(dataset_item).where(dataset_item.c.id.in_(ids)))
    return len(ids)


def insert_dataset(
    connection: Connection, tenant: TenantId, dataset_id: DatasetId, name: str, at_ms: int
) -> None:
    """Store a dataset without versions; a name that is taken breaks a constraint."""
    row = {"id": dataset_id, "tenant": tenant, "name": name, "created_at_ms": at_ms}
    connection.execute(sa.insert(dataset), row)


def insert_version(connection: Connection, tenant: TenantId, version: DatasetVersion) -> None:
    """Let a version be seen, with all its items."""
    row = {
        "id": version.version_id,
        "tenant": tenant,
        "dataset_id": version.dataset_id,
        "version": version.version,
        "schema_json": msgspec.json.encode(version.schema).decode(),
        "item_count": version.items,
        "max_turns": version.max_turns,
        "created_at_ms": version.created_at_ms,
    }
    connection.execute(sa.insert(dataset_version), row)


def next_version(connection: Connection, dataset_id: DatasetId) -> int:
    """The number of the version after the latest; nobody else adds one meanwhile."""
    connection.execute(sa.select(dataset.c.id).where(dataset.c.id == dataset_id).with_for_update())
    latest = sa.select(sa.func.max(dataset_version.c.version)).where(
        dataset_version.c.dataset_id == dataset_id
    )
    return (connection.execute(latest).scalar() or 0) + 1


def find_dataset(
    connection: Connection, tenant: TenantId, *, dataset_id: str = "", name: str = ""
) -> Dataset | None:
    """A dataset by its id or by its name."""
    named = dataset.c.id == dataset_id if dataset_id else dataset.c.name == name
    found = _datasets(connection, dataset.c.tenant == tenant, named)
    return found[0] if found else None


def list_datasets(
    connection: Connection, tenant: TenantId, *, after: str = "", most: int = 100
) -> list[Dataset]:
    """The tenant's datasets by name, from the one after `after`."""
    return _datasets(connection, dataset.c.tenant == tenant, dataset.c.name > after, most=most)


def find_version(
    connection: Connection, tenant: TenantId, version_id: str
) -> DatasetVersion | None:
    """A version by its id."""
    row = connection.execute(
        sa.select(dataset_version).where(
            dataset_version.c.id == version_id, dataset_version.c.tenant == tenant
        )
    ).first()
    return None if row is None else _version(row)


def versions_of(connection: Connection, dataset_id: DatasetId) -> list[DatasetVersion]:
    """Every version of a dataset, the latest first."""
    rows = connection.execute(
        sa.select(dataset_version)
        .where(dataset_version.c.dataset_id == dataset_id)
        .order_by(dataset_version.c.version.desc())
    )
    return [_version(row) for row in rows]


def items_of(
    connection: Connection, version_id: VersionId, *, after: str = "", most: int = 100
) -> list[Item]:
    """Items of a version in order, from the one after `after`."""
    rows = connection.execute(
        sa.select(dataset_item.c.id, dataset_item.c.turns_json)
        .where(dataset_item.c.version_id == version_id, dataset_item.c.id > after)
        .order_by(dataset_item.c.id)
        .limit(most)
    )
    return [Item(ItemId(row.id), turns_of(row.turns_json)) for row in rows]


def known_items(
    connection: Connection, version_id: VersionId, item_ids: Sequence[ItemId]
) -> set[ItemId]:
    """Which of these items the version has."""
    rows = connection.execute(
        sa.select(dataset_item.c.id).where(
            dataset_item.c.version_id == version_id,
            among(dataset_item.c.id, "item_ids", as_list(item_ids)),
        )
    )
    return set(rows.scalars())


def _datasets(
    connection: Connection, *conditions: sa.ColumnElement[bool], most: int = 1
) -> list[Dataset]:
    newer = dataset_version.alias()
    newest = (
        sa.select(sa.func.max(newer.c.version))
        .where(newer.c.dataset_id == dataset.c.id)
        .scalar_subquery()
    )
    rows = connection.execute(
        sa.select(
            dataset.c.tenant,
            dataset.c.name,
            dataset.c.created_at_ms.label("dataset_created_at_ms"),
            dataset_version,
        )
        .join(dataset_version, dataset_version.c.dataset_id == dataset.c.id)
        .where(*conditions, dataset_version.c.version == newest)
        .order_by(dataset.c.name)
        .limit(most)
    )
    return [
        Dataset(
            DatasetId(row.dataset_id),
            TenantId(row.tenant),
            row.name,
            row.dataset_created_at_ms,
            _version(row),
        )
        for row in rows
    ]


def _version(row: sa.Row[Any]) -> DatasetVersion:
    return DatasetVersion(
        version_id=VersionId(row.id),
        dataset_id=DatasetId(row.dataset_id),
        version=row.version,
        schema=msgspec.json.decode(row.schema_json),
        items=row.item_count,
        max_turns=row.max_turns,
        created_at_ms=row.created_at_ms,
    )
