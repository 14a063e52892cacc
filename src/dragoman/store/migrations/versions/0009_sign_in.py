"""Who is signed in, in a browser, with which key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import short_text, time_ms

revision = "0009"
down_revision: str | None = "0008"


def upgrade() -> None:
    op.create_table(
        "sign_in",
        sa.Column("digest", short_text(64), nullable=False),
        sa.Column("key_id", short_text(64), nullable=False),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.Column("expires_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sign_in"),
    )
    op.create_index("ix_sign_in_expires_at_ms", "sign_in", ["expires_at_ms"])
