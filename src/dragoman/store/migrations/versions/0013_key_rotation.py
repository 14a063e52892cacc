"""Rotation of keys: until when an old key is good, and which key took its place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import short_text, time_ms

revision = "0013"
down_revision: str | None = "0012"


def upgrade() -> None:
    op.add_column("api_key", sa.Column("expires_at_ms", time_ms(), nullable=True))
    op.add_column("api_key", sa.Column("replaces", short_text(64), nullable=True))
