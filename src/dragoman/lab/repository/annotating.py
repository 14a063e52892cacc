"""What people said of rows, and how far judges agreed with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import Annotation, Calibration, ExperimentId, ItemId, ItemKey
from dragoman.lab.repository.fields import shown_turns
from dragoman.lab.repository.statements import (
    among,
    among_keys,
    as_keys,
    as_list,
    delete_many,
    insert_or_update,
)
from dragoman.lab.repository.tables import annotation, calibration, dataset_item
from dragoman.store import StoreConnection

Output = tuple[str, int, int, str]
"""An output that can be judged: item, repetition, turn, and the record that holds it."""


class NewRow(msgspec.Struct, frozen=True):
    """An annotation to store."""

    annotation_id: str
    key: ItemKey
    turn_no: int
    target_record_id: str
    said: Annotation


class StoredAnnotation(msgspec.Struct, frozen=True):
    """An annotation as it is stored."""

    annotation_id: str
    item_id: str
    """The item as users know it."""
    repetition: int
    """From 1."""
    turn: int
    name: str
    annotator: str
    score: float | None
    label: str | None
    correction: str | None
    at_ms: int
    outdated: bool
    """Whether the row has another output now than the one that the person judged."""


def turns_of_items(
    connection: StoreConnection, experiment_id: ExperimentId, keys: Collection[ItemKey]
) -> dict[tuple[ItemId, int, int], str]:
    """The turns of these repetitions that the experiment shows, each with its output's record."""
    shown = shown_turns(experiment_id, None)
    rows = connection.execute(
        sa.select(
            shown.c.item_id, shown.c.repetition, shown.c.turn_no, shown.c.target_record_id
        ).where(among_keys(shown.c.item_id, shown.c.repetition, "keys")),
        {"keys": as_keys(keys)},
    )
    return {
        (ItemId(row.item_id), row.repetition, row.turn_no): row.target_record_id or ""
        for row in rows
    }


def put(
    connection: StoreConnection,
    tenant: TenantId,
    experiment_id: ExperimentId,
    rows: Sequence[NewRow],
    at_ms: int,
) -> list[tuple[str, bool]]:
    """Store annotations; the id of each, and whether it is new.

    One of the same person and name on the same output is replaced, and keeps its id.
    """
    return [_put(connection, tenant, experiment_id, row, at_ms) for row in rows]


def _put(
    connection: StoreConnection,
    tenant: TenantId,
    experiment_id: ExperimentId,
    row: NewRow,
    at_ms: int,
) -> tuple[str, bool]:
    place = {
        "experiment_id": experiment_id,
        "item_id": row.key.item_id,
        "repetition": row.key.repetition,
        "turn_no": row.turn_no,
        "target_record_id": row.target_record_id,
        "name": row.said.name,
        "author": row.said.annotator,
    }
    said = {
        "score": row.said.score,
        "label": row.said.label,
        "correction": row.said.correction,
        "created_at_ms": at_ms,
    }
    values = {"id": row.annotation_id, "tenant": tenant, **place, **said}
    put = insert_or_update(connection.dialect, annotation, tuple(place), tuple(said))
    connection.execute(put, values)
    same = sa.and_(*(annotation.c[name] == value for name, value in place.items()))
    kept = str(connection.execute(sa.select(annotation.c.id).where(same)).scalar_one())
    return kept, kept == row.annotation_id


def remove(connection: StoreConnection, experiment_id: ExperimentId, annotation_id: str) -> bool:
    """Remove an annotation; False when there is none."""
    which = (annotation.c.experiment_id == experiment_id, annotation.c.id == annotation_id)
    if connection.execute(sa.select(annotation.c.id).where(*which)).first() is None:
        return False
    connection.execute(sa.delete(annotation).where(*which))
    return True


def every(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    *,
    after: tuple[int, str] | None,
    most: int,
) -> list[StoredAnnotation]:
    """Annotations in the order in which they were given, from the one after `after`."""
    of = annotation.c
    shown = shown_turns(experiment_id, None)
    same_turn = sa.and_(
        shown.c.item_id == of.item_id,
        shown.c.repetition == of.repetition,
        shown.c.turn_no == of.turn_no,
    )
    select = (
        sa.select(
            annotation,
            sa.func.coalesce(dataset_item.c.content_id, of.item_id).label("shown_id"),
            sa.func.coalesce(shown.c.target_record_id, "").label("now"),
        )
        .outerjoin(dataset_item, dataset_item.c.id == of.item_id)
        .outerjoin(shown, same_turn)
        .where(of.experiment_id == experiment_id)
        .order_by(of.created_at_ms, of.id)
        .limit(most)
    )
    if after is not None:
        select = select.where(sa.tuple_(of.created_at_ms, of.id) > sa.tuple_(*after))
    return [
        StoredAnnotation(
            annotation_id=row.id,
            item_id=row.shown_id,
            repetition=row.repetition + 1,
            turn=row.turn_no,
            name=row.name,
            annotator=row.author,
            score=row.score,
            label=row.label,
            correction=row.correction,
            at_ms=row.created_at_ms,
            outdated=row.now != row.target_record_id,
        )
        for row in connection.execute(select)
    ]


def annotated_items(
    connection: StoreConnection, experiment_id: ExperimentId, *, after: str, most: int
) -> list[ItemId]:
    """Items that people judged, in order, from the one after `after`."""
    of = annotation.c
    ids = (
        sa.select(of.item_id)
        .where(of.experiment_id == experiment_id, of.item_id > after)
        .distinct()
        .order_by(of.item_id)
        .limit(most)
    )
    return [ItemId(one) for one in connection.execute(ids).scalars()]


def count(connection: StoreConnection, experiment_id: ExperimentId) -> int:
    """How many annotations an experiment has."""
    number = sa.select(sa.func.count()).where(annotation.c.experiment_id == experiment_id)
    return int(connection.execute(number).scalar_one())


def names_of(connection: StoreConnection, experiment_id: ExperimentId) -> list[str]:
    """The names under which people judged rows of an experiment."""
    names = sa.select(annotation.c.name).where(annotation.c.experiment_id == experiment_id)
    return sorted(connection.execute(names.distinct()).scalars())


def of_items(
    connection: StoreConnection, experiment_id: ExperimentId, item_ids: Collection[str]
) -> dict[Output, tuple[Annotation, ...]]:
    """What people said of outputs of these items, by name, each name's latest last."""
    of = annotation.c
    rows = connection.execute(
        sa.select(annotation)
        .where(of.experiment_id == experiment_id, among(of.item_id, "item_ids"))
        .order_by(of.name, of.created_at_ms, of.id),
        {"item_ids": as_list(item_ids)},
    )
    found: dict[Output, list[Annotation]] = {}
    for row in rows:
        place = (row.item_id, row.repetition, row.turn_no, row.target_record_id)
        said = Annotation(row.name, row.author, row.score, row.label, row.correction)
        found.setdefault(place, []).append(said)
    return {place: tuple(said) for place, said in found.items()}


# --- judges ---------------------------------------------------------------------------------------

_FIGURES = ("same_label", "kappa", "pearson", "spearman", "alpha")


def store_calibrations(
    connection: StoreConnection,
    tenant: TenantId,
    experiment_id: ExperimentId,
    fingerprints: Iterable[str],
    found: Sequence[Calibration],
) -> None:
    """Put what was measured in an experiment in the place of what it told of them before."""
    of = calibration.c
    connection.execute(
        delete_many(calibration).where(
            of.tenant == tenant,
            of.experiment_id == experiment_id,
            among(of.fingerprint, "fingerprints", as_list(fingerprints)),
        )
    )
    rows = [_calibration_row(tenant, one) for one in found]
    if rows:
        connection.execute(sa.insert(calibration), rows)


def calibrations(
    connection: StoreConnection, tenant: TenantId, fingerprints: Iterable[str]
) -> dict[str, list[Calibration]]:
    """What is known of these judges, the most rows first."""
    of = calibration.c
    rows = connection.execute(
        sa.select(calibration)
        .where(of.tenant == tenant, among(of.fingerprint, "prints", as_list(fingerprints)))
        .order_by(of.compared.desc(), of.measured_at_ms.desc(), of.experiment_id, of.annotation)
    )
    found: dict[str, list[Calibration]] = {}
    for row in rows:
        found.setdefault(row.fingerprint, []).append(_calibration(row))
    return found


def _calibration_row(tenant: TenantId, found: Calibration) -> Mapping[str, Any]:
    told = msgspec.structs.asdict(found)
    return {"tenant": tenant, "compared": told.pop("rows"), **told}


def _calibration(row: sa.Row[Any]) -> Calibration:
    return Calibration(
        annotation=row.annotation,
        rows=row.compared,
        **{name: getattr(row, name) for name in _FIGURES},
        model=row.model,
        prompt=row.prompt,
        fingerprint=row.fingerprint,
        experiment_id=ExperimentId(row.experiment_id),
        measured_at_ms=row.measured_at_ms,
    )
