"""For which time a run started by itself, so that none starts twice whatever the clocks do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import time_ms

revision = "0014"
down_revision: str | None = "0013"


def upgrade() -> None:
    op.add_column("run_log", sa.Column("due_at_ms", time_ms(), nullable=True))
