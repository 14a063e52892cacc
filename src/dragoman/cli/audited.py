"""What operators do on the command line without a server, as the audit log tells it.

What changes the database writes its entry in the same transaction. What changes something else is
done even when the database is away, and then says that the log does not have it.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
from collections.abc import Sequence

import typer
from sqlalchemy.exc import SQLAlchemyError

from dragoman.audit import AuditEntry, AuditOutcome, AuditStore
from dragoman.clock import SystemClock
from dragoman.errors import DragomanError, StoreError
from dragoman.ids import new_id
from dragoman.settings import masked
from dragoman.store import SchemaStatus, check, open_store


def actor() -> str:
    """Who runs this command."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name, as in many containers
        return f"cli:{os.getuid()}"


def entry_of(action: str, *, subject: str, tenant: str, **facts: object) -> AuditEntry:
    """The entry for something that this command has done, or does in the same transaction."""
    return AuditEntry(
        entry_id=new_id(secrets.SystemRandom(), "e"),
        at_ms=SystemClock().now_ms(),
        actor=actor(),
        role=None,
        tenant=tenant,
        address="",
        action=action,
        subject=subject,
        outcome=AuditOutcome.DONE,
        facts={name: value for name, value in facts.items() if value is not None},
    )


def record_afterwards(database_url: str, entries: Sequence[AuditEntry]) -> None:
    """Keep entries of what was done elsewhere than in the database, or warn that it has none."""

    async def add() -> None:
        async with await open_store(database_url) as store:
            await AuditStore(store).add(entries)

    if not entries:
        return
    try:
        if check(database_url).state is SchemaStatus.EMPTY:
            raise StoreError(f"The database {masked(database_url)} is empty.")
        asyncio.run(add())
    except (DragomanError, SQLAlchemyError, OSError) as error:
        reason = error.message if isinstance(error, DragomanError) else str(error)
        typer.echo(f"warning: it was done, and the audit log does not have it: {reason}", err=True)
