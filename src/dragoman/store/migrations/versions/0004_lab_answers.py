"""The lab: what its answers are computed from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    _scores()


def _scores() -> None:
    """What corpus scores are computed from, and what the scores of a run depend on."""
    op.add_column("evaluator_record", sa.Column("statistics_json", long_text(), nullable=True))
    op.add_column("run_log", sa.Column("fingerprints_json", long_text(), nullable=True))
