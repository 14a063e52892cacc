"""Datasets on record: versions that never change, and items that are stored before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import (
    ContentId,
    Dataset,
    DatasetId,
    DatasetVersion,
    Item,
    ItemId,
    VersionId,
    repeated_id,
)
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import (
    dataset,
    dataset_item,
    dataset_version,
    experiment,
)
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
                "content_id": item.content_id,
            }
            for item in items
        ],
    )


def has_repeated_items(connection: Connection, version_id: VersionId) -> bool:
    """Whether a version has items of the same content."""
    repeated = (
        sa.select(dataset_item.c.content_id)
        .where(dataset_item.c.version_id == version_id)
        .group_by(dataset_item.c.content_id)
        .having(sa.func.count() > 1)
        .limit(1)
    )
    return connection.execute(repeated).first() is not None


class Repeats(msgspec.Struct, frozen=True):
    """How far the items of a version have been told apart, in the order of their contents."""

    content_id: str = ""
    item_id: str = ""
    occurrences: int = 0
    """Of the content that was reached."""


def tell_repeated_items_apart(
    connection: Connection, version_id: VersionId, reached: Repeats, most: int
) -> Repeats | None:
    """Give the second and later items of a content ids of their own; None after the last.

    Items that have got theirs come again, behind the first of their content, and are left alone.
    """
    behind = sa.tuple_(dataset_item.c.content_id, dataset_item.c.id) > sa.tuple_(
        sa.literal(reached.content_id), sa.literal(reached.item_id)
    )
    rows = connection.execute(
        sa.select(dataset_item.c.id, dataset_item.c.content_id)
        .where(dataset_item.c.version_id == version_id, behind)
        .order_by(dataset_item.c.content_id, dataset_item.c.id)
        .limit(most)
    ).all()
    changes: list[dict[str, str]] = []
    content, occurrences = reached.content_id, reached.occurrences
    for row in rows:
        occurrences = occurrences + 1 if row.content_id == content else 1
        content = row.content_id
        if occurrences > 1:
            new_id = repeated_id(ContentId(content), occurrences)
            changes.append({"row": row.id, "new_id": new_id})
    if changes:
        rename = sa.update(dataset_item).where(dataset_item.c.id == sa.bindparam("row"))
        connection.execute(rename.values(content_id=sa.bindparam("new_id")), changes)
    return Repeats(content, rows[-1].id, occurrences) if rows else None


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
        "content": version.content,
    }
    connection.execute(sa.insert(dataset_version), row)


def lock_dataset(connection: Connection, dataset_id: DatasetId) -> bool:
    """Keep others from adding versions until this transaction ends; False when it is gone."""
    row = sa.select(dataset.c.id).where(dataset.c.id == dataset_id).with_for_update()
    return connection.execute(row).first() is not None


def next_version(connection: Connection, dataset_id: DatasetId) -> int:
    """The number of the version after the latest, of a dataset that is locked."""
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


def find_content(
    connection: Connection, dataset_id: DatasetId, content: str
) -> DatasetVersion | None:
    """The version of a dataset that holds exactly this."""
    row = connection.execute(
        sa.select(dataset_version).where(
            dataset_version.c.dataset_id == dataset_id, dataset_version.c.content == content
        )
    ).first()
    return None if row is None else _version(row)


def lock_version(connection: Connection, version_id: str) -> bool:
    """Keep a version from being deleted until this transaction ends; False when it is gone."""
    row = sa.select(dataset_version.c.id).where(dataset_version.c.id == version_id)
    return connection.execute(row.with_for_update()).first() is not None


def lock_versions(connection: Connection, dataset_id: DatasetId) -> list[VersionId]:
    """Every version of a dataset; nobody begins to use one until this transaction ends."""
    rows = connection.execute(
        sa.select(dataset_version.c.id)
        .where(dataset_version.c.dataset_id == dataset_id)
        .order_by(dataset_version.c.id)
        .with_for_update()
    )
    return [VersionId(version_id) for version_id in rows.scalars()]


def using_experiment(connection: Connection, version_ids: Sequence[VersionId]) -> str | None:
    """The name of an experiment that uses one of the versions."""
    row = connection.execute(
        sa.select(experiment.c.name)
        .where(among(experiment.c.dataset_version_id, "version_ids", as_list(version_ids)))
        .limit(1)
    ).first()
    return None if row is None else str(row.name)


def delete_dataset(connection: Connection, dataset_id: DatasetId) -> None:
    """Remove a dataset from sight, with its versions; their items are removed afterwards."""
    connection.execute(sa.delete(dataset_version).where(dataset_version.c.dataset_id == dataset_id))
    connection.execute(sa.delete(dataset).where(dataset.c.id == dataset_id))


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
        sa.select(dataset_item.c.id, dataset_item.c.turns_json, dataset_item.c.content_id)
        .where(dataset_item.c.version_id == version_id, dataset_item.c.id > after)
        .order_by(dataset_item.c.id)
        .limit(most)
    )
    return [Item(ItemId(row.id), turns_of(row.turns_json), row.content_id) for row in rows]


def contents_of(
    connection: Connection, version_id: VersionId, *, after: str = "", most: int
) -> list[tuple[ItemId, ContentId]]:
    """The items of a version in order, without their turns, from the one after `after`."""
    rows = connection.execute(
        sa.select(dataset_item.c.id, dataset_item.c.content_id)
        .where(dataset_item.c.version_id == version_id, dataset_item.c.id > after)
        .order_by(dataset_item.c.id)
        .limit(most)
    )
    return [(ItemId(row.id), ContentId(row.content_id)) for row in rows]


def contents_among(
    connection: Connection, version_id: VersionId, contents: Sequence[ContentId]
) -> set[ContentId]:
    """Which of these contents the version has."""
    rows = connection.execute(
        sa.select(dataset_item.c.content_id).where(
            dataset_item.c.version_id == version_id,
            among(dataset_item.c.content_id, "contents", as_list(contents)),
        )
    )
    return set(rows.scalars())


def items_by_content(
    connection: Connection, version_id: VersionId, contents: Sequence[ContentId]
) -> list[Item]:
    """The items of a version that have these contents, in order."""
    rows = connection.execute(
        sa.select(dataset_item.c.id, dataset_item.c.turns_json, dataset_item.c.content_id)
        .where(
            dataset_item.c.version_id == version_id,
            among(dataset_item.c.content_id, "contents", as_list(contents)),
        )
        .order_by(dataset_item.c.id)
    )
    return [Item(ItemId(row.id), turns_of(row.turns_json), row.content_id) for row in rows]


def known_items(
    connection: Connection, version_id: VersionId, shown_ids: Sequence[str]
) -> dict[str, ItemId]:
    """Those of these items that the version has: how users know them -> their rows."""
    found: dict[str, ItemId] = {}
    without_content = sa.and_(
        dataset_item.c.content_id.is_(None), among(dataset_item.c.id, "row_ids", as_list(shown_ids))
    )
    for named in (
        among(dataset_item.c.content_id, "content_ids", as_list(shown_ids)),
        without_content,
    ):
        rows = connection.execute(
            sa.select(dataset_item.c.id, dataset_item.c.content_id).where(
                dataset_item.c.version_id == version_id, named
            )
        )
        found |= {row.content_id or row.id: ItemId(row.id) for row in rows}
    return found


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
        content=row.content,
    )
