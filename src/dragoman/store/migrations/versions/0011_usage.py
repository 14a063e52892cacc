"""What tenants use: one row for each tenant, day and process that counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import short_text

revision = "0011"
down_revision: str | None = "0010"


def upgrade() -> None:
    op.create_table(
        "tenant_usage",
        sa.Column("day", short_text(10), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("counted_by", short_text(64), nullable=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        sa.Column("audio_ms", sa.BigInteger(), nullable=False),
        sa.Column("characters", sa.BigInteger(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "tenant", "counted_by", name="pk_tenant_usage"),
    )
