"""The lab: what its answers are computed from, those that were given before, repetitions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, short_text, time_ms

revision = "0004"
down_revision: str | None = "0003"

_RUN_LOG_INDEX = "ix_item_run_log_run_id_result_state_status_item_id"
_RESULT_INDEX = "ix_item_result_experiment_id_status_item_id"


def upgrade() -> None:
    _scores()
    _repetitions()
    _answers()
    _audio()


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


def _answers() -> None:
    op.add_column(
        "target_record",
        sa.Column("cached", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.add_column("target_record", sa.Column("first_token_ms", sa.Float(), nullable=True))
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
