"""The audit log: one row for each action of an operator, and each change of a key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, short_text, time_ms

revision = "0012"
down_revision: str | None = "0011"


def upgrade() -> None:
    op.create_table(
        "audit_entry",
        sa.Column("id", short_text(64), nullable=False),
        sa.Column("at_ms", time_ms(), nullable=False),
        sa.Column("actor", short_text(), nullable=False),
        sa.Column("role", short_text(32), nullable=True),
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("address", short_text(64), nullable=False),
        sa.Column("action", short_text(64), nullable=False),
        sa.Column("subject", short_text(), nullable=False),
        sa.Column("outcome", short_text(32), nullable=False),
        sa.Column("facts", long_text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entry"),
    )
    op.create_index("ix_audit_entry_at_ms_id", "audit_entry", ["at_ms", "id"])
