"""The lab: versions and items known by their content, removals in steps, calls let finish."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import real, short_text

revision = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    # Without a value: stored before contents were known. Such items go by their row's id.
    op.add_column("dataset_version", sa.Column("content", short_text(64), nullable=True))
    op.add_column("dataset_item", sa.Column("content_id", short_text(64), nullable=True))
    op.create_table(
        "dataset_content",
        sa.Column("version_id", short_text(64), nullable=False),
        sa.Column("content_id", short_text(64), nullable=False),
        sa.Column("item_id", short_text(64), nullable=False),
        sa.PrimaryKeyConstraint("version_id", "content_id", name="pk_dataset_content"),
        sqlite_with_rowid=False,
    )
    op.add_column(
        "run_log",
        sa.Column("let_finish", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    # A recorded answer took no time that could be measured. SQLite copies the table for this.
    with op.batch_alter_table("target_record") as table:
        table.alter_column("latency_ms", existing_type=real(), nullable=True)
    for table_name in ("target_record", "evaluator_record"):
        op.create_index(f"ix_{table_name}_run_id", table_name, ["run_id"])
    op.create_table(
        "pending_removal",
        sa.Column("kind", short_text(16), nullable=False),
        sa.Column("id", short_text(64), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id", name="pk_pending_removal"),
    )
