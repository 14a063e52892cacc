"""The lab: which experiments use a version of a dataset, without reading them all."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision: str | None = "0004"


def upgrade() -> None:
    op.create_index("ix_experiment_dataset_version_id", "experiment", ["dataset_version_id"])
