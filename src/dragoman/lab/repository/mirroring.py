"""What the columnar mirror copies: which items changed, and their turns as users see them.

Triggers of the database note every change (see the migrations); here they are read and crossed out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ExperimentId, ItemId
from dragoman.lab.repository import experiments, leases
from dragoman.lab.repository.leases import Held
from dragoman.lab.repository.result_rows import WholeTurn, whole_turns
from dragoman.lab.repository.statements import among, as_list, delete_many
from dragoman.lab.repository.tables import experiment, mirror_change, mirror_state, turn_result
from dragoman.store import StoreConnection

_THE_MIRROR = "mirror"
_NOTED = ("turn_result", "annotation", "experiment")
"""The tables whose changes are noted."""


class MirrorChange(msgspec.Struct, frozen=True):
    """An item that changed; without an item, an experiment that was deleted."""

    experiment_id: ExperimentId
    item_id: ItemId
    change_no: int


class State(msgspec.Struct, frozen=True):
    """Which mirror follows the database, and how often it was written to."""

    mirror_id: str
    flush_no: int


class Copied(msgspec.Struct, frozen=True):
    """Turns of one experiment, with the scores of every evaluator that they have."""

    experiment_id: ExperimentId
    turns: list[WholeTurn]


# --- following ------------------------------------------------------------------------------------


def state(connection: StoreConnection) -> State | None:
    """The mirror that follows the database; None when none does."""
    row = connection.execute(sa.select(mirror_state)).first()
    return None if row is None else State(row.mirror_id, row.flush_no)


def begin_following(connection: StoreConnection, held: Held, mirror_id: str) -> None:
    """From now on note every change, for a mirror that holds nothing yet."""
    leases.require(connection, held)
    if connection.dialect == "postgresql":
        # A transaction that changed rows before this one is visible notes nothing: wait for it.
        connection.execute(sa.text(f"LOCK TABLE {', '.join(_NOTED)} IN SHARE MODE"))
    stop_following(connection)
    row = {"name": _THE_MIRROR, "mirror_id": mirror_id, "flush_no": 0}
    connection.execute(sa.insert(mirror_state), row)
    if connection.dialect == "mysql":
        # The same, in the other order: this stores the row above, then waits for every
        # transaction that has changed one of the tables. A crash in between leaves a mirror that
        # is not complete, and is begun anew.
        read_locks = ", ".join(f"{table} READ" for table in _NOTED)
        connection.execute(sa.text(f"LOCK TABLES {read_locks}"))
        connection.execute(sa.text("UNLOCK TABLES"))


def stop_following(connection: StoreConnection) -> None:
    """Note nothing more; the next mirror begins by copying everything."""
    connection.execute(sa.delete(mirror_state))
    connection.execute(sa.delete(mirror_change))


def changes(connection: StoreConnection, most: int) -> list[MirrorChange]:
    """Some of what the mirror lacks."""
    noted = mirror_change.c
    rows = connection.execute(
        sa.select(mirror_change).order_by(noted.experiment_id, noted.item_id).limit(most)
    )
    return [
        MirrorChange(ExperimentId(row.experiment_id), ItemId(row.item_id), row.change_no)
        for row in rows
    ]


def count_changes(connection: StoreConnection, most: int) -> int:
    """How many items the mirror lacks, counted up to so many."""
    first = sa.select(mirror_change.c.item_id).limit(most).subquery()
    number = connection.execute(sa.select(sa.func.count()).select_from(first))
    return int(number.scalar_one())


def count_items(connection: StoreConnection) -> int:
    """How many items there are: a mirror that was never made lacks them all."""
    shown = turn_result.c
    first = sa.select(sa.func.count()).where(shown.repetition == 0, shown.turn_no == 0)
    return int(connection.execute(first).scalar_one())


def count_first_items(connection: StoreConnection, most: int) -> int:
    """How many items the first so many turns have: all items, where there are no more turns."""
    shown = turn_result.c
    first = sa.select(shown.repetition, shown.turn_no).limit(most).subquery()
    counted = sa.select(sa.func.count()).where(first.c.repetition == 0, first.c.turn_no == 0)
    return int(connection.execute(counted).scalar_one())


def is_behind(connection: StoreConnection, experiment_id: ExperimentId) -> bool:
    """Whether the mirror lacks something of this experiment."""
    noted = sa.select(mirror_change.c.item_id).where(mirror_change.c.experiment_id == experiment_id)
    return connection.execute(noted.limit(1)).first() is not None


def cross_out(
    connection: StoreConnection, held: Held, copied: Sequence[MirrorChange], flush_no: int
) -> None:
    """Forget changes that the mirror has; an item that changed again since it was read stays."""
    leases.require(connection, held)
    connection.execute(sa.update(mirror_state).values(flush_no=flush_no))
    groups: dict[tuple[ExperimentId, int], list[ItemId]] = {}
    for change in copied:
        groups.setdefault((change.experiment_id, change.change_no), []).append(change.item_id)
    for (experiment_id, change_no), item_ids in sorted(groups.items()):
        which = {"experiment": experiment_id, "change": change_no, "item_ids": as_list(item_ids)}
        connection.execute(_CROSS_OUT, which)


_CROSS_OUT = delete_many(mirror_change).where(
    mirror_change.c.experiment_id == sa.bindparam("experiment"),
    mirror_change.c.change_no == sa.bindparam("change"),
    among(mirror_change.c.item_id, "item_ids"),
)


# --- copying --------------------------------------------------------------------------------------


def turns_of_items(
    connection: StoreConnection, experiment_id: ExperimentId, item_ids: Sequence[ItemId]
) -> Copied | None:
    """Every turn of these items, as it stands; None when the experiment was deleted."""
    if experiments.find_experiment(connection, experiment_id) is None:
        return None
    return Copied(experiment_id, whole_turns(connection, experiment_id, item_ids))


def next_experiment(connection: StoreConnection, after: str) -> ExperimentId | None:
    """The next experiment to copy, by id."""
    ids = sa.select(experiment.c.id).where(experiment.c.id > after).order_by(experiment.c.id)
    found = connection.execute(ids.limit(1)).scalar()
    return None if found is None else ExperimentId(found)


def next_items(
    connection: StoreConnection, experiment_id: ExperimentId, after: str, most: int
) -> list[ItemId]:
    """The next items of an experiment to copy."""
    shown = turn_result.c
    ids = (
        sa.select(shown.item_id)
        .where(shown.experiment_id == experiment_id, shown.item_id > after)
        .distinct()
        .order_by(shown.item_id)
        .limit(most)
    )
    return [ItemId(one) for one in connection.execute(ids).scalars()]
