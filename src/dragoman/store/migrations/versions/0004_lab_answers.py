"""The lab's answers: statistics of scores, and which changes the columnar mirror lacks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, short_text

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    _scores()
    # Last: SQLite copies a table to change its key, and a copy has no triggers.
    _mirror()


def _scores() -> None:
    op.add_column("evaluator_record", sa.Column("statistics_json", long_text(), nullable=True))


def _mirror() -> None:
    op.create_table(
        "mirror_state",
        sa.Column("name", short_text(16), nullable=False),
        sa.Column("mirror_id", short_text(64), nullable=False),
        sa.Column("flush_no", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_mirror_state"),
    )
    op.create_table(
        "mirror_change",
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("change_no", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("experiment_id", "item_id", name="pk_mirror_change"),
        sqlite_with_rowid=False,
    )
    # Triggers, so that no statement of any program can change a row and forget to note it. They
    # do nothing while no mirror follows the database.
    make = _on_sqlite if op.get_bind().dialect.name == "sqlite" else _on_postgresql
    for table, events in _NOTED.items():
        for event, row in events.items():
            for statement in make(table, event, row):
                op.execute(statement)


_NOTED = {
    "turn_result": {"INSERT": "NEW", "UPDATE": "NEW"},
    "annotation": {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"},
    "experiment": {"DELETE": "OLD"},
}
"""What is noted: the events of each table, and the row that tells what changed."""


def _changed(table: str, row: str) -> str:
    """The experiment and the item; of a whole experiment, an empty item."""
    return f"{row}.id, ''" if table == "experiment" else f"{row}.experiment_id, {row}.item_id"


def _on_sqlite(table: str, event: str, row: str) -> tuple[str, ...]:
    trigger = f"""
        CREATE TRIGGER mirror_{table}_{event.lower()} AFTER {event} ON {table}
        WHEN EXISTS (SELECT 1 FROM mirror_state)
        BEGIN
            INSERT INTO mirror_change (experiment_id, item_id, change_no)
            VALUES ({_changed(table, row)}, 1)
            ON CONFLICT (experiment_id, item_id) DO UPDATE SET change_no = change_no + 1;
        END"""
    return (trigger,)


def _on_postgresql(table: str, event: str, row: str) -> tuple[str, ...]:
    name = f"mirror_{table}_{event.lower()}"
    function = f"""
        CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body$
        BEGIN
            IF EXISTS (SELECT 1 FROM mirror_state) THEN
                INSERT INTO mirror_change AS known (experiment_id, item_id, change_no)
                VALUES ({_changed(table, row)}, 1)
                ON CONFLICT (experiment_id, item_id)
                DO UPDATE SET change_no = known.change_no + 1;
            END IF;
            RETURN NULL;
        END $body$"""
    trigger = f"""
        CREATE TRIGGER {name} AFTER {event} ON {table}
        FOR EACH ROW EXECUTE FUNCTION {name}()"""
    return function, trigger
