"""The lab: what its answers are computed from, and those that were given before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, short_text, time_ms

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    _scores()
    _answers()
    _audio()


def _scores() -> None:
    """What corpus scores are computed from, and what the scores of a run depend on."""
    op.add_column("evaluator_record", sa.Column("statistics_json", long_text(), nullable=True))
    op.add_column("run_log", sa.Column("fingerprints_json", long_text(), nullable=True))


def _answers() -> None:
    op.add_column(
        "target_record",
        sa.Column("cached", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.add_column("target_record", sa.Column("first_token_ms", sa.Float(), nullable=True))
    op.create_table(
        "response_cache",
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("key", short_text(64), nullable=False),
        sa.Column("output_json", long_text(), nullable=False),
        sa.Column("created_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_response_cache"),
    )
    op.create_index(
        "ix_response_cache_tenant_created_at_ms", "response_cache", ["tenant", "created_at_ms"]
    )


def _audio() -> None:
    """Which audio files the versions of datasets refer to."""
    op.create_table(
        "dataset_audio",
        sa.Column("version_id", short_text(64), nullable=False),
        sa.Column("sha256", short_text(64), nullable=False),
        sa.Column("media_type", short_text(64), nullable=False),
        sa.PrimaryKeyConstraint("version_id", "sha256", name="pk_dataset_audio"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_dataset_audio_sha256", "dataset_audio", ["sha256"])
