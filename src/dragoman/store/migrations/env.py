"""Run by Alembic for every migration, on the connection that ``dragoman.store`` hands over."""

from __future__ import annotations

from alembic import context

from dragoman.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
)
with context.begin_transaction():
    context.run_migrations()
