"""The lab: what its answers are computed from, those given before, repetitions, the mirror."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, real, short_text, time_ms

revision = "0004"
down_revision: str | None = "0003"

_RUN_LOG_INDEX = "ix_item_run_log_run_id_result_state_status_item_id"
_RESULT_INDEX = "ix_item_result_experiment_id_status_item_id"


def upgrade() -> None:
    _scores()
    _repetitions()
    _answers()
    _audio()
    _annotations()
    # Last: SQLite copies a table to change its key, and a copy has no triggers.
    _mirror()


def _scores() -> None:
    """What corpus scores are computed from, and what the scores of a run depend on."""
    op.add_column("evaluator_record", sa.Column("statistics_json", long_text(), nullable=True))
    op.add_column("run_log", sa.Column("fingerprints_json", long_text(), nullable=True))


def _repetitions() -> None:
    """Rows that are there already become the first repetition of their items."""
    # SQLite copies a table to change its key, and indices with it.
    op.drop_index(_RUN_LOG_INDEX, "item_run_log")
    op.drop_index(_RESULT_INDEX, "item_result")
    for table_name, key, with_rowid in (
        ("item_run_log", ["run_id", "item_id"], False),
        ("turn_run_log", ["run_id", "item_id", "turn_no", "try_no"], True),
        ("turn_score", ["run_id", "item_id", "turn_no", "try_no", "evaluator_no"], False),
        ("item_result", ["experiment_id", "item_id"], False),
        ("turn_result", ["experiment_id", "item_id", "turn_no"], True),
    ):
        with op.batch_alter_table(
            table_name, table_kwargs={} if with_rowid else {"sqlite_with_rowid": False}
        ) as table:
            table.add_column(_repetition())
            table.drop_constraint(f"pk_{table_name}", type_="primary")
            table.create_primary_key(f"pk_{table_name}", [*key[:2], "repetition", *key[2:]])
    for table_name in ("target_record", "evaluator_record"):
        op.add_column(table_name, _repetition())
    op.create_index(
        f"{_RUN_LOG_INDEX}_repetition",
        "item_run_log",
        ["run_id", "result_state", "status", "item_id", "repetition"],
    )
    op.create_index(
        f"{_RESULT_INDEX}_repetition",
        "item_result",
        ["experiment_id", "status", "item_id", "repetition"],
    )
    op.add_column("run_log", sa.Column("evaluators_json", long_text(), nullable=True))


def _repetition() -> sa.Column[int]:
    return sa.Column("repetition", sa.Integer(), nullable=False, server_default=sa.text("0"))


def _annotations() -> None:
    """Which output an annotation is about, and how far judges agree with people."""
    op.add_column("annotation", _repetition())
    op.add_column(
        "annotation",
        sa.Column("target_record_id", short_text(120), nullable=False, server_default=""),
    )
    op.create_index(
        "ix_annotation_who_said_what",
        "annotation",
        [
            *("experiment_id", "item_id", "repetition", "turn_no", "target_record_id"),
            *("name", "author"),
        ],
        unique=True,
    )
    figures = ("same_label", "kappa", "pearson", "spearman", "alpha")
    op.create_table(
        "calibration",
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("fingerprint", short_text(64), nullable=False),
        sa.Column("annotation", short_text(), nullable=False),
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("model", long_text(), nullable=False),
        sa.Column("prompt", short_text(64), nullable=False),
        sa.Column("compared", sa.Integer(), nullable=False),
        *(sa.Column(name, real(), nullable=True) for name in figures),
        sa.Column("measured_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint(
            "tenant", "fingerprint", "annotation", "experiment_id", name="pk_calibration"
        ),
    )


def _answers() -> None:
    op.add_column(
        "target_record",
        sa.Column("cached", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.add_column("target_record", sa.Column("first_token_ms", real(), nullable=True))
    op.create_table(
        "response_cache",
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("key", short_text(64), nullable=False),
        sa.Column("output_json", long_text(), nullable=False),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_response_cache"),
    )
    op.create_index(
        "ix_response_cache_tenant_created_at_ms", "response_cache", ["tenant", "created_at_ms"]
    )


def _audio() -> None:
    """Which audio files the versions of datasets refer to."""
    op.create_table(
        "dataset_audio",
        sa.Column("version_id", short_text(64), nullable=False),
        sa.Column("sha256", short_text(64), nullable=False),
        sa.Column("media_type", short_text(64), nullable=False),
        sa.PrimaryKeyConstraint("version_id", "sha256", name="pk_dataset_audio"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_dataset_audio_sha256", "dataset_audio", ["sha256"])


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
    make = _TRIGGERS[op.get_bind().dialect.name]
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


def _on_mysql(table: str, event: str, row: str) -> tuple[str, ...]:
    name = f"mirror_{table}_{event.lower()}"
    trigger = f"""
        CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW
        INSERT INTO mirror_change (experiment_id, item_id, change_no)
        SELECT {_changed(table, row)}, 1 FROM mirror_state LIMIT 1
        ON DUPLICATE KEY UPDATE change_no = mirror_change.change_no + 1"""
    return f"DROP TRIGGER IF EXISTS {name}", trigger


_TRIGGERS = {"sqlite": _on_sqlite, "postgresql": _on_postgresql, "mysql": _on_mysql}
