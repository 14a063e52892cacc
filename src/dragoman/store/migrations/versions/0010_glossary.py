"""The glossary: terms to hear and translations to force, by tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dragoman.store.schema import long_text, short_text, time_ms

revision = "0010"
down_revision: str | None = "0009"


def upgrade() -> None:
    op.create_table(
        "glossary_term",
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("src_key", short_text(64), nullable=False),
        sa.Column("tgt_key", short_text(64), nullable=False),
        sa.Column("term", short_text(), nullable=False),
        sa.Column("src_lang", short_text(64), nullable=False),
        sa.Column("tgt_lang", short_text(64), nullable=True),
        sa.Column("translation", long_text(), nullable=True),
        sa.Column("updated_at_ms", time_ms(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "src_key", "tgt_key", "term", name="pk_glossary_term"),
    )
    op.create_table(
        "glossary_revision",
        sa.Column("tenant", short_text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_glossary_revision"),
    )
