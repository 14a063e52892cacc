"""The lab: which processes work on what, on all machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, real, short_text, time_ms

revision = "0007"
down_revision: str | None = "0006"


def upgrade() -> None:
    op.create_table(
        "worker",
        sa.Column("owner", short_text(64), nullable=False),
        sa.Column("host", short_text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", short_text(64), nullable=False),
        sa.Column("schedules", sa.Boolean(), nullable=False),
        sa.Column("mirror", short_text(), nullable=False),
        sa.Column("is_draining", sa.Boolean(), nullable=False),
        sa.Column("capacity", sa.Integer(), nullable=False),
        sa.Column("items_done", sa.BigInteger(), nullable=False),
        sa.Column("items_per_second", real(), nullable=False),
        sa.Column("doing_json", long_text(), nullable=False),
        sa.Column("started_at_ms", time_ms(), nullable=False),
        sa.Column("seen_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_worker"),
    )
    op.create_index("ix_worker_seen_at_ms", "worker", ["seen_at_ms"])
