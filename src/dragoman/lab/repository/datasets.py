"""Stored datasets: versions that never change, and items that are stored before them."""

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
    JsonValue,
    VersionId,
)
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import (
    dataset,
    dataset_audio,
    dataset_content,
    dataset_item,
    dataset_version,
    experiment,
)
from dragoman.store import StoreConnection

_NEW_ITEMS = sa.insert(dataset_item)
_NEW_CONTENTS = sa.insert(dataset_content)
_RENAME = (
    sa.update(dataset_item)
    .where(dataset_item.c.id == sa.bindparam("row"))
    .values(content_id=sa.bindparam("new_id"))
)


def insert_items(
    connection: StoreConnection, tenant: TenantId, version_id: VersionId, items: Sequence[Item]
) -> None:
    """Store items of a version that is not visible yet."""
    connection.insert(
        _NEW_ITEMS,
        [
            (
                item.item_id,
                tenant,
                version_id,
                None,
                len(item.turns),
                msgspec.json.encode(item.turns).decode(),
                item.content_id,
            )
            for item in items
        ],
    )


def insert_contents(
    connection: StoreConnection,
    version_id: VersionId,
    contents: Sequence[tuple[ContentId, ItemId, bool]],
) -> None:
    """Store the content of items; repeated contents get ids of their own."""
    connection.insert(
        _NEW_CONTENTS, [(version_id, content, item_id) for content, item_id, _ in contents]
    )
    repeated = [
        {"row": item_id, "new_id": content} for content, item_id, again in contents if again
    ]
    if repeated:
        connection.execute(_RENAME, repeated)


def insert_audio(
    connection: StoreConnection, version_id: VersionId, files: Sequence[tuple[str, str]]
) -> None:
    """Note audio files of a version, by checksum and media type, before they are kept."""
    rows = [
        {"version_id": version_id, "sha256": sha256, "media_type": media_type}
        for sha256, media_type in files
    ]
    if rows:
        connection.execute(sa.insert(dataset_audio), rows)


def used_audio(connection: StoreConnection, checksums: Sequence[str]) -> set[str]:
    """Those of these files that a version, or an import, refers to."""
    rows = connection.execute(
        sa.select(dataset_audio.c.sha256)
        .where(among(dataset_audio.c.sha256, "checksums", as_list(checksums)))
        .distinct()
    )
    return set(rows.scalars())


def audio_of_versions(connection: StoreConnection, version_ids: Sequence[VersionId]) -> list[str]:
    """The files that these versions refer to."""
    rows = connection.execute(
        sa.select(dataset_audio.c.sha256)
        .where(among(dataset_audio.c.version_id, "version_ids", as_list(version_ids)))
        .distinct()
    )
    return list(rows.scalars())


def audio_media_type(connection: StoreConnection, dataset_id: DatasetId, sha256: str) -> str | None:
    """The media type of a file that a version of the dataset refers to; None if none does."""
    found = connection.execute(
        sa.select(dataset_audio.c.media_type)
        .join(dataset_version, dataset_version.c.id == dataset_audio.c.version_id)
        .where(dataset_audio.c.sha256 == sha256, dataset_version.c.dataset_id == dataset_id)
        .limit(1)
    )
    return found.scalar()


def insert_dataset(
    connection: StoreConnection, tenant: TenantId, dataset_id: DatasetId, name: str, at_ms: int
) -> None:
    """Store a dataset without versions; a name that is taken breaks a constraint."""
    row = {"id": dataset_id, "tenant": tenant, "name": name, "created_at_ms": at_ms}
    connection.execute(sa.insert(dataset), row)


def insert_version(connection: StoreConnection, tenant: TenantId, version: DatasetVersion) -> None:
    """Make a version visible, with all its items."""
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


def lock_dataset(connection: StoreConnection, dataset_id: DatasetId) -> bool:
    """Lock the dataset against new versions until this transaction ends; False when it is gone."""
    row = sa.select(dataset.c.id).where(dataset.c.id == dataset_id).with_for_update()
    return connection.execute(row).first() is not None


def next_version(connection: StoreConnection, dataset_id: DatasetId) -> int:
    """The number of the version after the latest, of a dataset that is locked."""
    latest = sa.select(sa.func.max(dataset_version.c.version)).where(
        dataset_version.c.dataset_id == dataset_id
    )
    return (connection.execute(latest).scalar() or 0) + 1


def find_dataset(
    connection: StoreConnection, tenant: TenantId, *, dataset_id: str = "", name: str = ""
) -> Dataset | None:
    """A dataset by its id or by its name."""
    named = dataset.c.id == dataset_id if dataset_id else dataset.c.name == name
    found = _datasets(connection, dataset.c.tenant == tenant, named)
    return found[0] if found else None


def list_datasets(
    connection: StoreConnection, tenant: TenantId, *, after: str = "", most: int = 100
) -> list[Dataset]:
    """The tenant's datasets by name, from the one after `after`."""
    return _datasets(connection, dataset.c.tenant == tenant, dataset.c.name > after, most=most)


def find_version(
    connection: StoreConnection, tenant: TenantId, version_id: str
) -> DatasetVersion | None:
    """A version by its id."""
    row = connection.execute(
        sa.select(dataset_version).where(
            dataset_version.c.id == version_id, dataset_version.c.tenant == tenant
        )
    ).first()
    return None if row is None else _version(row)


def schema_of_version(connection: StoreConnection, version_id: str) -> dict[str, JsonValue] | None:
    """The schema of a version of any tenant; None when the version is gone."""
    found = connection.execute(
        sa.select(dataset_version.c.schema_json).where(dataset_version.c.id == version_id)
    ).scalar()
    return None if found is None else msgspec.json.decode(found)


def find_content(
    connection: StoreConnection, dataset_id: DatasetId, content: str
) -> DatasetVersion | None:
    """The version of a dataset that holds exactly this."""
    row = connection.execute(
        sa.select(dataset_version).where(
            dataset_version.c.dataset_id == dataset_id, dataset_version.c.content == content
        )
    ).first()
    return None if row is None else _version(row)


def lock_version(connection: StoreConnection, version_id: str) -> bool:
    """Lock a version against deletion until this transaction ends; False when it is gone."""
    row = sa.select(dataset_version.c.id).where(dataset_version.c.id == version_id)
    return connection.execute(row.with_for_update()).first() is not None


def lock_versions(connection: StoreConnection, dataset_id: DatasetId) -> list[VersionId]:
    """Every version of a dataset, locked against new uses until this transaction ends."""
    rows = connection.execute(
        sa.select(dataset_version.c.id)
        .where(dataset_version.c.dataset_id == dataset_id)
        .order_by(dataset_version.c.id)
        .with_for_update()
    )
    return [VersionId(version_id) for version_id in rows.scalars()]


def using_experiment(connection: StoreConnection, version_ids: Sequence[VersionId]) -> str | None:
    """The name of an experiment that uses one of the versions."""
    row = connection.execute(
        sa.select(experiment.c.name)
        .where(among(experiment.c.dataset_version_id, "version_ids", as_list(version_ids)))
        .limit(1)
    ).first()
    return None if row is None else str(row.name)


def delete_dataset(connection: StoreConnection, dataset_id: DatasetId) -> None:
    """Delete a dataset and its versions; their items are removed afterwards."""
    connection.execute(sa.delete(dataset_version).where(dataset_version.c.dataset_id == dataset_id))
    connection.execute(sa.delete(dataset).where(dataset.c.id == dataset_id))


def versions_of(connection: StoreConnection, dataset_id: DatasetId) -> list[DatasetVersion]:
    """Every version of a dataset, the latest first."""
    rows = connection.execute(
        sa.select(dataset_version)
        .where(dataset_version.c.dataset_id == dataset_id)
        .order_by(dataset_version.c.version.desc())
    )
    return [_version(row) for row in rows]


def items_of(
    connection: StoreConnection, version_id: VersionId, *, after: str = "", most: int = 100
) -> list[Item]:
    """Items of a version in order, from the one after `after`."""
    rows = connection.execute(
        sa.select(dataset_item.c.id, dataset_item.c.turns_json, dataset_item.c.content_id)
        .where(dataset_item.c.version_id == version_id, dataset_item.c.id > after)
        .order_by(dataset_item.c.id)
        .limit(most)
    )
    return [Item(ItemId(row.id), turns_of(row.turns_json), row.content_id) for row in rows]


def item_at(connection: StoreConnection, version_id: VersionId, position: int) -> Item | None:
    """The item of a version at a place, from 0; None past the last."""
    row = connection.execute(
        sa.select(dataset_item.c.id)
        .where(dataset_item.c.version_id == version_id)
        .order_by(dataset_item.c.id)
        .offset(position)
        .limit(1)
    ).first()
    if row is None:
        return None
    found = connection.execute(sa.select(dataset_item).where(dataset_item.c.id == row.id)).one()
    return Item(ItemId(found.id), turns_of(found.turns_json), found.content_id)


def turns_in(connection: StoreConnection, version_id: VersionId) -> int:
    """How many turns the items of a version have together."""
    total = sa.select(sa.func.sum(dataset_item.c.turn_count)).where(
        dataset_item.c.version_id == version_id
    )
    return int(connection.execute(total).scalar() or 0)


def contents_of(
    connection: StoreConnection, version_id: VersionId, *, after: str = "", most: int
) -> list[ContentId]:
    """What a version holds, in the order of the ids, from the one after `after`."""
    rows = connection.execute(
        sa.select(dataset_content.c.content_id)
        .where(dataset_content.c.version_id == version_id, dataset_content.c.content_id > after)
        .order_by(dataset_content.c.content_id)
        .limit(most)
    )
    return [ContentId(content) for content in rows.scalars()]


def rows_of_contents(
    connection: StoreConnection, version_id: VersionId, contents: Sequence[str]
) -> dict[str, ItemId]:
    """Those of these contents that the version has, each with its item."""
    rows = connection.execute(
        sa.select(dataset_content.c.content_id, dataset_content.c.item_id).where(
            dataset_content.c.version_id == version_id,
            among(dataset_content.c.content_id, "contents", as_list(contents)),
        )
    )
    return {row.content_id: ItemId(row.item_id) for row in rows}


def items_by_content(
    connection: StoreConnection, version_id: VersionId, contents: Sequence[ContentId]
) -> list[Item]:
    """The items of a version that have these contents, in order."""
    item_ids = rows_of_contents(connection, version_id, contents).values()
    rows = connection.execute(
        sa.select(dataset_item.c.id, dataset_item.c.turns_json, dataset_item.c.content_id)
        .where(among(dataset_item.c.id, "item_ids", as_list(item_ids)))
        .order_by(dataset_item.c.id)
    )
    return [Item(ItemId(row.id), turns_of(row.turns_json), row.content_id) for row in rows]


def known_items(
    connection: StoreConnection, version_id: VersionId, shown_ids: Sequence[str]
) -> dict[str, ItemId]:
    """The items of these that the version has: the users' ids -> their rows."""
    found = rows_of_contents(connection, version_id, shown_ids)
    without_content = connection.execute(
        sa.select(dataset_item.c.id).where(
            among(dataset_item.c.id, "item_ids", as_list(shown_ids)),
            dataset_item.c.version_id == version_id,
            dataset_item.c.content_id.is_(None),
        )
    )
    return found | {item_id: ItemId(item_id) for item_id in without_content.scalars()}


def _datasets(
    connection: StoreConnection, *conditions: sa.ColumnElement[bool], most: int = 1
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
