"""API keys: who may use the scheduler, as what, and for which tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import short_text, time_ms

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("digest", short_text(64), nullable=False),
        sa.Column("role", short_text(32), nullable=False),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("node_id", short_text(), nullable=True),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.Column("revoked_at_ms", time_ms(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_key"),
        sa.UniqueConstraint("digest", name="uq_api_key_digest"),
    )
