"""The lab: which experiments start by themselves, and when."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision: str | None = "0007"


def upgrade() -> None:
    op.create_index("ix_experiment_next_run_at_ms", "experiment", ["next_run_at_ms"])
