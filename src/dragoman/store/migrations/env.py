"""Run by Alembic for every migration, on the connection that ``dragoman.store`` hands over."""

from __future__ import annotations

from alembic import context

from dragoman.store.schema import metadata

if context.config.attributes["connection"].dialect.name == "mysql":
    import dragoman.store.mysql.migrating  # noqa: F401 - declares how steps are carried out

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
)
with context.begin_transaction():
    context.run_migrations()
