"""The lab: why a run was stopped, and which experiments ended when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import short_text

revision = "0006"
down_revision: str | None = "0005"


def upgrade() -> None:
    op.add_column("run_log", sa.Column("stop_code", short_text(64), nullable=True))
    op.create_index("ix_experiment_ended_at_ms", "experiment", ["ended_at_ms"])
