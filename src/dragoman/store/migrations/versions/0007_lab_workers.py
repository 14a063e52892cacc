"""The lab: which processes work on what, on all machines, and at which pace."""

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
    op.create_table(
        "target_pace",
        sa.Column("target", short_text(64), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("title", long_text(), nullable=False),
        sa.Column("most", sa.Integer(), nullable=True),
        sa.Column("learned_json", long_text(), nullable=True),
        sa.PrimaryKeyConstraint("target", name="pk_target_pace"),
    )
    op.create_index("ix_target_pace_tenant", "target_pace", ["tenant"])
    op.create_table(
        "target_share",
        sa.Column("target", short_text(64), nullable=False),
        sa.Column("claimant", short_text(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("granted", sa.Integer(), nullable=False),
        sa.Column("seen_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("target", "claimant", name="pk_target_share"),
    )
    op.create_index("ix_target_share_claimant", "target_share", ["claimant"])
