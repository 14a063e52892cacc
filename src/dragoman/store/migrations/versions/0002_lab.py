"""The lab: datasets, experiments and their runs, what scheduling sees and what users see."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, real, short_text, time_ms

revision = "0002"
down_revision: str | None = "0001"


def upgrade() -> None:
    _asked_for()
    _scheduling()
    _seen_by_users()
    _permissions()


def _asked_for() -> None:
    op.create_table(
        "dataset",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("name", short_text(), nullable=False),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dataset"),
        sa.UniqueConstraint("tenant", "name", name="uq_dataset_tenant_name"),
    )
    op.create_table(
        "dataset_version",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("dataset_id", short_text(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("schema_json", long_text(), nullable=False),
        sa.Column("item_count", sa.Integer(), nullable=False),
        sa.Column("max_turns", sa.Integer(), nullable=False),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_version"),
        sa.UniqueConstraint("dataset_id", "version", name="uq_dataset_version_dataset_id_version"),
    )
    op.create_table(
        "dataset_item",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("version_id", short_text(64), nullable=True),
        sa.Column("experiment_id", short_text(64), nullable=True),
        sa.Column("turn_count", sa.Integer(), nullable=False),
        sa.Column("turns_json", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_item"),
    )
    op.create_index(
        "ix_dataset_item_experiment_id_id_turn_count",
        "dataset_item",
        ["experiment_id", "id", "turn_count"],
    )
    op.create_index(
        "ix_dataset_item_version_id_id_turn_count",
        "dataset_item",
        ["version_id", "id", "turn_count"],
    )
    op.create_table(
        "experiment",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("name", short_text(), nullable=False),
        sa.Column("dataset_version_id", short_text(64), nullable=True),
        sa.Column("spec_json", long_text(), nullable=False),
        sa.Column("status", short_text(16), nullable=False),
        sa.Column("reason", long_text(), nullable=True),
        sa.Column("run_id", short_text(64), nullable=True),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.Column("started_at_ms", time_ms(), nullable=True),
        sa.Column("ended_at_ms", time_ms(), nullable=True),
        sa.Column("next_run_at_ms", time_ms(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_experiment"),
        sa.UniqueConstraint("tenant", "name", name="uq_experiment_tenant_name"),
    )
    op.create_index(
        "ix_experiment_tenant_created_at_ms_id", "experiment", ["tenant", "created_at_ms", "id"]
    )
    op.create_table(
        "run_log",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("mode", short_text(16), nullable=False),
        sa.Column("status", short_text(16), nullable=False),
        sa.Column("reason", long_text(), nullable=True),
        sa.Column("item_ids_json", long_text(), nullable=False),
        sa.Column("trial_items", sa.Integer(), nullable=True),
        sa.Column("start_cursor", short_text(64), nullable=False),
        sa.Column("start_done", sa.Boolean(), nullable=False),
        sa.Column("item_count", sa.Integer(), nullable=False),
        sa.Column("embedded", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.Column("started_at_ms", time_ms(), nullable=True),
        sa.Column("ended_at_ms", time_ms(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_run_log"),
    )
    op.create_index(
        "ix_run_log_experiment_id_created_at_ms", "run_log", ["experiment_id", "created_at_ms"]
    )
    op.create_index("ix_run_log_status_tenant", "run_log", ["status", "tenant"])


def _scheduling() -> None:
    op.create_table(
        "item_run_log",
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("status", short_text(16), nullable=False),
        sa.Column("result_state", short_text(16), nullable=False),
        sa.Column("try_no", sa.Integer(), nullable=False),
        sa.Column("first_try_no", sa.Integer(), nullable=False),
        sa.Column("archived_try_no", sa.Integer(), nullable=False),
        sa.Column("lineage", short_text(120), nullable=False),
        sa.Column("lease_owner", short_text(64), nullable=True),
        sa.Column("lease_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at", time_ms(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "item_id", name="pk_item_run_log"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_item_run_log_run_id_result_state_status_item_id",
        "item_run_log",
        ["run_id", "result_state", "status", "item_id"],
    )
    op.create_table(
        "turn_run_log",
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("turn_no", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("try_no", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("status", short_text(16), nullable=False),
        sa.Column("target_record_id", short_text(120), nullable=True),
        sa.Column("error_code", short_text(64), nullable=True),
        sa.Column("error_message", long_text(), nullable=True),
        sa.Column("logged_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "item_id", "turn_no", "try_no", name="pk_turn_run_log"),
    )
    op.create_table(
        "turn_score",
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("turn_no", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("try_no", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("evaluator_no", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("evaluator_record_id", short_text(120), nullable=False),
        sa.PrimaryKeyConstraint(
            "run_id", "item_id", "turn_no", "try_no", "evaluator_no", name="pk_turn_score"
        ),
        sqlite_with_rowid=False,
    )


def _seen_by_users() -> None:
    op.create_table(
        "item_result",
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("status", short_text(16), nullable=False),
        sa.Column("try_no", sa.Integer(), nullable=False),
        sa.Column("lineage", short_text(120), nullable=False),
        sa.PrimaryKeyConstraint("experiment_id", "item_id", name="pk_item_result"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_item_result_experiment_id_status_item_id",
        "item_result",
        ["experiment_id", "status", "item_id"],
    )
    op.create_table(
        "turn_result",
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("turn_no", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("try_no", sa.Integer(), nullable=False),
        sa.Column("status", short_text(16), nullable=False),
        sa.Column("target_record_id", short_text(120), nullable=True),
        sa.Column("error_code", short_text(64), nullable=True),
        sa.Column("error_message", long_text(), nullable=True),
        sa.PrimaryKeyConstraint("experiment_id", "item_id", "turn_no", name="pk_turn_result"),
    )
    op.create_table(
        "target_record",
        sa.Column("id", short_text(120), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("turn_no", sa.Integer(), nullable=False),
        sa.Column("output_json", long_text(), nullable=False),
        sa.Column("main", short_text(), nullable=False),
        sa.Column("latency_ms", real(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost", real(), nullable=True),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_target_record"),
    )
    op.create_table(
        "evaluator_record",
        sa.Column("id", short_text(120), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("turn_no", sa.Integer(), nullable=False),
        sa.Column("name", short_text(), nullable=False),
        sa.Column("score", real(), nullable=True),
        sa.Column("label", long_text(), nullable=True),
        sa.Column("reason", long_text(), nullable=True),
        sa.Column("error_code", short_text(64), nullable=True),
        sa.Column("error_message", long_text(), nullable=True),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluator_record"),
    )
    op.create_table(
        "experiment_stats",
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("queueing", sa.Integer(), nullable=False),
        sa.Column("processing", sa.Integer(), nullable=False),
        sa.Column("success", sa.Integer(), nullable=False),
        sa.Column("fail", sa.Integer(), nullable=False),
        sa.Column("terminated", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", real(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_experiment_stats"),
    )
    op.create_index("ix_experiment_stats_experiment_id", "experiment_stats", ["experiment_id"])
    op.create_index("ix_experiment_stats_tenant", "experiment_stats", ["tenant"])
    op.create_table(
        "experiment_aggregate",
        sa.Column("run_id", short_text(64), nullable=False),
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("aggregates_json", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_experiment_aggregate"),
    )
    op.create_index(
        "ix_experiment_aggregate_experiment_id", "experiment_aggregate", ["experiment_id"]
    )


def _permissions() -> None:
    op.create_table(
        "lease",
        sa.Column("name", short_text(), nullable=False),
        sa.Column("owner", short_text(64), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lease"),
    )
    op.create_table(
        "quota",
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("running_experiments", sa.Integer(), nullable=True),
        sa.Column("tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost", real(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", name="pk_quota"),
    )
    op.create_table(
        "annotation",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("experiment_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.Column("turn_no", sa.Integer(), nullable=False),
        sa.Column("name", short_text(), nullable=False),
        sa.Column("score", real(), nullable=True),
        sa.Column("label", long_text(), nullable=True),
        sa.Column("correction", long_text(), nullable=True),
        sa.Column("author", short_text(), nullable=False),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_annotation"),
    )
    op.create_index(
        "ix_annotation_experiment_id_item_id_turn_no",
        "annotation",
        ["experiment_id", "item_id", "turn_no"],
    )
